import { randomUUID } from "node:crypto";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { TokenFailure } from "../../../auth/oauth2/tokens.ts";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { checkConnectionId, lowerTags } from "../../../core/connection-rules.ts";
import { PendingDeviceSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type BeginDeviceAuthorizationRequest,
  type ConnectSession,
  ConnectSessionSchema,
  type DeviceAuthorization,
  DeviceAuthorization_State,
  DeviceAuthorizationSchema,
  IntegrationDefaultsSchema,
} from "../../../gen/latchkey/v1/connect_session_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../../../store/contract.ts";
import type { Audit } from "../../audit/audit.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Caller } from "../../setup/caller.ts";
import { requireConfigScope } from "../../setup/credential-scope.ts";
import { namesNothing } from "../../stored/name-tables.ts";
import type { DeviceCode, TokenEndpoint } from "../../tokens/token-endpoint.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import {
  type AuthorizationContext,
  type AuthorizationContexts,
  configOf,
  scopesOf,
} from "../authorize/authorization-context.ts";
import type { FailedAuthorizations } from "../authorize/failed-authorizations.ts";
import { deviceLifetimeMs } from "../authorize/pending-authorizations.ts";
import { checkDeviceBeginning } from "../connect-session-rules.ts";
import type { DeviceWaits } from "./device-waits.ts";

/** Authorizations by a code that the end user enters at a provider's page (RFC 8628), on any device. */
export interface DeviceAuthorizations {
  /** Requests a code from the provider, and polls until the outcome is known. */
  begin(request: NewDevice, caller: Caller): Promise<DeviceAuthorization>;
  /** `environment` undefined: any environment. */
  get(ref: { readonly environment: string | undefined; readonly id: string }): Promise<DeviceAuthorization>;
}

export type NewDevice = Omit<BeginDeviceAuthorizationRequest, "$typeName" | "$unknown">;

interface DeviceOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & AuthorizationCollections;
  readonly contexts: AuthorizationContexts;
  readonly tokenEndpoint: TokenEndpoint;
  readonly waits: DeviceWaits;
  readonly failures: FailedAuthorizations;
  readonly audit: Audit;
  readonly world: World;
}

export function createDeviceAuthorizations(options: DeviceOptions): DeviceAuthorizations {
  const { store, collections, contexts, tokenEndpoint, waits, failures, audit, world } = options;
  const { pendingDevices } = collections;

  async function begunWith(request: NewDevice, actor: string): Promise<ConnectSession> {
    const { environment, integration, connectionId: id, userScopes, connectionConfig, endUser, tags } = request;
    const defaults = create(IntegrationDefaultsSchema, { userScopes, connectionConfig: connectionConfig ?? {} });
    const mistakes = [...(id === "" ? [] : checkConnectionId(id)), ...checkDeviceBeginning(request, defaults)];
    if (mistakes.length > 0) throw new Fault("invalid_body", "the device authorization is not valid", { mistakes });
    const isThere = id !== "" && (await collections.connections.get(environment, integration, id)) !== undefined;
    return create(ConnectSessionSchema, {
      environment,
      ...(endUser === undefined ? {} : { endUser }),
      tags: lowerTags(tags),
      allowedIntegrations: [integration],
      integrationDefaults: { [integration]: defaults },
      ...(isThere ? { reconnect: { environment, integration, id } } : {}),
      createdBy: actor,
      webhookUrlOverride: request.webhookUrlOverride,
    });
  }

  async function begin(request: NewDevice, caller: Caller): Promise<DeviceAuthorization> {
    if (namesNothing(request.integration)) throw unknownIntegration(request.integration);
    const { keyId: actor } = caller;
    const session = await begunWith(request, actor);
    const context = await contexts.of({ value: session, revision: 0, bytes: 0 }, request.integration);
    const { integration, provider, existing } = context;
    if (existing !== undefined) {
      const { connectionConfig: before = {} } = existing;
      requireConfigScope(caller, { provider, before, after: { ...before, ...request.connectionConfig } });
    }
    const { auth } = provider;
    if (auth.case !== "oauth2")
      throw new Fault("invalid_body", `"${integration.key}" does not use OAuth 2, so it has no device codes`);
    const connectionConfig = configOf(context, {});
    const scopes = scopesOf(context, auth.value, []);
    const code = await codeFor(context, connectionConfig, scopes).catch((error: unknown) =>
      failures.refuse(error, {
        environment: integration.environment,
        integration: integration.key,
        existing: existing?.ref,
        credentials: auth.case,
        secrets: [],
      }),
    );
    const now = world.now();
    const authorization = create(DeviceAuthorizationSchema, {
      id: randomUUID(),
      environment: integration.environment,
      integration: integration.key,
      userCode: code.userCode,
      verificationUri: code.verificationUri,
      verificationUriComplete: code.verificationUriComplete ?? "",
      createdAt: timestampFromMs(now),
      expiresAt: timestampFromMs(Math.min(code.expiresAtMs, now + deviceLifetimeMs)),
      state: DeviceAuthorization_State.PENDING,
    });
    const { id, environment } = authorization;
    const after = create(PendingDeviceSchema, {
      id,
      authorization,
      begunWith: session,
      connectionId: existing?.ref?.id ?? (request.connectionId || randomUUID()),
      deviceCode: code.deviceCode,
      intervalMs: Math.min(code.intervalMs, deviceLifetimeMs),
      scopes,
      connectionConfig,
      createdAt: timestampFromMs(now),
    });
    await store.commit([
      ...pendingDevices.change({ before: undefined, after }),
      ...audit.changes({ actor, action: "device_authorization.begin", environment, targets: [integration.key] }),
    ]);
    world.metrics.authorizationsBegun.inc({ credentials: auth.case });
    waits.follow(id);
    return authorization;
  }

  async function codeFor(
    context: AuthorizationContext,
    connectionConfig: JsonObject,
    scopes: readonly string[],
  ): Promise<DeviceCode> {
    const asking = await contexts.partiesOf(context, connectionConfig);
    return tokenEndpoint.beginDevice({ ...asking, scopes }).catch((error: unknown) => {
      if (!(error instanceof TokenFailure) || error.code !== "device_url_missing") throw error;
      throw withoutDevices(context.integration);
    });
  }

  return {
    begin: (request, caller) => waits.withRoom(() => begin(request, caller)),
    async get({ environment, id }) {
      const found = namesNothing(id) ? undefined : await pendingDevices.get(id);
      const authorization = found?.value.authorization;
      const isTheirs = environment === undefined || authorization?.environment === environment;
      if (authorization !== undefined && isTheirs) return authorization;
      throw new Fault("not_found", "there is no such device authorization, or it has expired");
    },
  };
}

const unknownIntegration = (key: string) =>
  new Fault("unknown_provider_config", `there is no integration ${JSON.stringify(key)}`);

const withoutDevices = ({ key, provider }: Integration) =>
  new Fault("integration_misconfigured", `the provider of "${key}", ${provider}, has no device authorization`);
