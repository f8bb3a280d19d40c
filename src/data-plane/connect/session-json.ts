import type { JsonObject } from "@bufbuild/protobuf";
import { endUserJson } from "../../core/dialect/sdk-json.ts";
import type {
  ConnectSession,
  IntegrationDefaults,
  IntegrationOverrides,
} from "../../gen/latchkey/v1/connect_session_pb.ts";
import { usualAccents } from "../pages/styles.ts";

/** Returns a session in the form that the SDK's own page reads. `accent`: the environment's color; empty: the usual. */
export function sessionJson(session: ConnectSession, accent: string): JsonObject {
  const { endUser, tags, allowedIntegrations, integrationDefaults, overrides, reconnect, webhookUrlOverride } = session;
  return {
    endUser: endUserJson(endUser),
    tags: { ...tags },
    ...(allowedIntegrations.length === 0 ? {} : { allowed_integrations: [...allowedIntegrations] }),
    integrations_config_defaults: Object.fromEntries(
      Object.entries(integrationDefaults).map(([key, defaults]) => [key, defaultsJson(defaults)]),
    ),
    ...(Object.keys(overrides).length === 0 ? {} : { overrides: overridesJson(overrides) }),
    isReconnecting: reconnect !== undefined,
    connectUISettings: {
      theme: { light: { primary: accent || usualAccents.light }, dark: { primary: accent || usualAccents.dark } },
      defaultTheme: "system",
      showWatermark: false,
    },
    ...(webhookUrlOverride === "" ? {} : { webhook_url_override: webhookUrlOverride }),
  };
}

const overridesJson = (overrides: Readonly<Record<string, IntegrationOverrides>>): JsonObject =>
  Object.fromEntries(
    Object.entries(overrides).map(([key, { docsConnect }]) => [
      key,
      docsConnect === "" ? {} : { docs_connect: docsConnect },
    ]),
  );

const defaultsJson = ({ userScopes, authorizationParams, connectionConfig = {} }: IntegrationDefaults): JsonObject => ({
  ...(userScopes.length === 0 ? {} : { user_scopes: userScopes.join(",") }),
  authorization_params: { ...authorizationParams },
  connection_config: connectionConfig,
});
