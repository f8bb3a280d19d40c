import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import { checkConnectionConfig } from "../../../core/connection-rules.ts";
import { connectConfig, scopesOverride, userFields } from "../../../core/dialect/connect-params.ts";
import { scopesIn, wantedScopes } from "../../../core/granted-scopes.ts";
import type { ConnectSession } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Integration, Integration_Callback } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { OAuth2Rules, Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { Connections } from "../../connections/connections.ts";
import type { Environments } from "../../setup/environments.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import type { TokenParties } from "../../tokens/token-endpoint.ts";
import { checkAddresses } from "./connection-addresses.ts";
import { redirectContext } from "./redirect-context.ts";

/** The session of an authorization, with everything needed to continue. */
export interface AuthorizationContext {
  readonly session: StoredRecordOf<ConnectSession>;
  readonly integration: Integration;
  readonly provider: Provider;
  /** The connection that is re-authorized. */
  readonly existing: Connection | undefined;
}

/** Loads what every step of an authorization needs. */
export interface AuthorizationContexts {
  /** Throws `unknown_provider_config` if the session does not allow the integration. */
  of(session: StoredRecordOf<ConnectSession>, integration: string): Promise<AuthorizationContext>;
  /** The last segment of an integration's redirect URI; empty: the URI is shared by integrations. */
  redirectContextOf(integration: Integration): Promise<string>;
  redirectUri(redirectContext: string): string;
  /** The client and the provider of token requests, with the values that fill in their addresses. */
  partiesOf(context: AuthorizationContext, connectionConfig: JsonObject): Promise<TokenParties>;
}

interface AuthorizationContextsOptions {
  readonly environments: Environments;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly connections: Connections;
  readonly publicUrl: () => string;
}

export function createAuthorizationContexts({
  environments,
  integrations,
  providers,
  connections,
  publicUrl,
}: AuthorizationContextsOptions): AuthorizationContexts {
  async function open(session: StoredRecordOf<ConnectSession>, key: string): Promise<AuthorizationContext> {
    const { environment, allowedIntegrations, reconnect } = session.value;
    const isAllowed = allowedIntegrations.length === 0 || allowedIntegrations.includes(key);
    if (!isAllowed)
      throw new Fault("unknown_provider_config", `this connect session is not for the integration "${key}"`);
    const { value: integration } = await integrations.get({ environment, key });
    const existing = reconnect === undefined ? undefined : (await connections.get(reconnect)).value;
    return { session, integration, provider: await providers.findNow(integration.provider), existing };
  }

  async function redirectContextOf({ environment, key, provider, callback }: Integration): Promise<string> {
    if (callback !== Integration_Callback.BOUND) return "";
    const { id } = await environments.get(environment);
    return redirectContext({ environmentId: id, integration: key, provider });
  }

  const redirectUri = (segment: string) => `${publicUrl()}/oauth/callback${segment === "" ? "" : `/${segment}`}`;

  const partiesOf = async (
    { integration, provider }: AuthorizationContext,
    connectionConfig: JsonObject,
  ): Promise<TokenParties> => ({
    provider,
    integration,
    secrets: await integrations.secretsOf(integration),
    connectionConfig: { ...integration.connectionDefaults, ...connectionConfig },
  });

  return { of: open, redirectContextOf, redirectUri, partiesOf };
}

/** The session's defaults for this integration. */
export const defaultsOf = ({ session, integration }: AuthorizationContext) =>
  session.value.integrationDefaults[integration.key];

/** The future `connection_config` of the connection. Throws if the end user must fill in other values. */
export function configOf(context: AuthorizationContext, given: Readonly<Record<string, string>>): JsonObject {
  const { integration, provider, existing } = context;
  const session = defaultsOf(context)?.connectionConfig ?? {};
  const config = connectConfig(provider.connectionFields, {
    existing: existing?.connectionConfig ?? {},
    given,
    session,
  });
  const fields = userFields(provider.connectionFields);
  const whole = { ...integration.connectionDefaults, ...config };
  const fieldMistakes = checkConnectionConfig(whole, fields);
  const mistakes = fieldMistakes.length > 0 ? fieldMistakes : checkAddresses(provider, whole);
  if (mistakes.length > 0) {
    throw new Fault("invalid_query_params", "the connection details are not valid", { mistakes });
  }
  return config;
}

/** The scopes to request. */
export function scopesOf(context: AuthorizationContext, rules: OAuth2Rules, further: readonly string[]): string[] {
  const { integration, provider, existing } = context;
  // A step-up asks for the scopes that the server wanted, beside those that were granted.
  const lacking = provider.mcp === undefined ? [] : (existing?.missingScopes ?? []);
  const { userScopes = [], connectionConfig = {} } = defaultsOf(context) ?? {};
  const override = connectionConfig[scopesOverride];
  return wantedScopes({
    configured: typeof override === "string" ? scopesIn(override) : (integration.oauth?.scopes ?? []),
    defaults: rules.defaultScopes,
    // Scopes set by the application take precedence, so that a page cannot add more.
    further: userScopes.length > 0 ? userScopes : further,
    granted: [...(existing?.grantedScopes ?? []), ...lacking],
  });
}

/** The scopes to request for further tokens, by the parameter that carries them. A token without scopes is not requested. */
export function furtherScopesOf({ integration }: AuthorizationContext, rules: OAuth2Rules): Record<string, string[]> {
  const configured = integration.oauth?.furtherScopes ?? {};
  const requested: Record<string, string[]> = {};
  for (const [name, { scopeParameter, defaultScopes }] of Object.entries(rules.furtherTokens)) {
    const scopes = Object.hasOwn(configured, name) ? (configured[name]?.scopes ?? []) : defaultScopes;
    if (scopeParameter !== "" && scopes.length > 0) requested[scopeParameter] = [...scopes];
  }
  return requested;
}
