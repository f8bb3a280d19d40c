import type { Mistake } from "../../base/fault.ts";
import { checkTags, checkWebhookUrl, endUserTags } from "../../core/connection-rules.ts";
import type { ConnectSession, IntegrationDefaults } from "../../gen/latchkey/v1/connect_session_pb.ts";

type SessionDescription = Pick<
  ConnectSession,
  "endUser" | "tags" | "allowedIntegrations" | "integrationDefaults" | "webhookUrlOverride" | "reconnect" | "overrides"
>;

const maxIntegrations = 100;
const maxScopes = 200;
const maxParams = 50;
const maxTextLength = 2_048;
const maxConfigBytes = 16 * 1024;

/** Validates a connect session. Returns every mistake; an empty list: valid. */
export function checkConnectSession(session: SessionDescription): Mistake[] {
  const { endUser, tags, allowedIntegrations, integrationDefaults, webhookUrlOverride, reconnect, overrides } = session;
  const isNobodys = endUser === undefined && Object.keys(tags).length === 0 && reconnect === undefined;
  const ownTags = checkTags(tags);
  return [
    ...(isNobodys ? [{ path: ["end_user"], message: "or tags must be set" }] : []),
    // Checks the session's own tags first, then all tags including those of the end user, for their number.
    ...(ownTags.length > 0 ? ownTags : checkTags({ ...endUserTags(endUser), ...tags })),
    ...checkWebhookUrl(webhookUrlOverride, ["webhook_url_override"]),
    ...(allowedIntegrations.length > maxIntegrations
      ? [{ path: ["allowed_integrations"], message: `must be at most ${maxIntegrations}` }]
      : []),
    ...Object.entries(integrationDefaults).flatMap(([key, defaults]) =>
      checkDefaults(["integrations_config_defaults", key], defaults),
    ),
    ...(Object.keys(overrides).length > maxIntegrations
      ? [{ path: ["overrides"], message: `must be at most ${maxIntegrations}` }]
      : []),
    ...Object.entries(overrides).flatMap(([key, { docsConnect }]) =>
      checkWebhookUrl(docsConnect, ["overrides", key, "docs_connect"]),
    ),
  ];
}

/**
 * Validates the start of a device authorization. The end user is optional, since no link exists that could be misused.
 */
export function checkDeviceBeginning(
  { endUser, tags, webhookUrlOverride }: Pick<SessionDescription, "endUser" | "tags" | "webhookUrlOverride">,
  defaults: IntegrationDefaults,
): Mistake[] {
  const ownTags = checkTags(tags);
  return [
    ...(ownTags.length > 0 ? ownTags : checkTags({ ...endUserTags(endUser), ...tags })),
    ...checkWebhookUrl(webhookUrlOverride, ["webhook_url_override"]),
    ...checkDefaults([], defaults),
  ];
}

function checkDefaults(path: readonly string[], defaults: IntegrationDefaults): Mistake[] {
  const { userScopes, authorizationParams, connectionConfig = {} } = defaults;
  const params = Object.entries(authorizationParams);
  const isLong = [...userScopes, ...params.flat()].some((text) => text.length > maxTextLength);
  return [
    ...(userScopes.length > maxScopes
      ? [{ path: [...path, "user_scopes"], message: `must be at most ${maxScopes}` }]
      : []),
    ...(params.length > maxParams
      ? [{ path: [...path, "authorization_params"], message: `must be at most ${maxParams}` }]
      : []),
    ...(isLong ? [{ path, message: `must contain no text longer than ${maxTextLength} characters` }] : []),
    ...(Buffer.byteLength(JSON.stringify(connectionConfig)) > maxConfigBytes
      ? [{ path: [...path, "connection_config"], message: `must be at most ${maxConfigBytes} bytes` }]
      : []),
  ];
}
