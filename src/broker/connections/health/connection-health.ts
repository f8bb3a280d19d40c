import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { credentialsExpireAt } from "../../../auth/credential-life.ts";
import { canRefresh } from "../../../auth/credential-refresh.ts";
import { isOfFormerIssuer } from "../../../auth/oauth2/token-issuer.ts";
import type { TokenFailureKind } from "../../../auth/oauth2/tokens.ts";
import type { RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { Connection_State } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../../gen/latchkey/v1/credentials_pb.ts";
import { type Integration, OAuthApp_Publishing } from "../../../gen/latchkey/v1/integration_pb.ts";
import { type OAuth2Rules, type Provider, RefreshTokenRules_Use } from "../../../gen/latchkey/v1/provider_pb.ts";
import { isExhausted } from "./refresh-bookkeeping.ts";

/** Reason of a connection whose MCP server has moved to another authorization server. */
export const issuerChanged = "issuer_changed";
/** Reason of a connection whose MCP server wants further scopes for some of its tools. */
export const insufficientScope = "insufficient_scope";

/** Everything that determines a connection's health. */
export interface Vitals {
  readonly credentials: Credentials;
  readonly integration: Pick<Integration, "oauth">;
  readonly provider: Provider;
  readonly record: RefreshRecord | undefined;
  readonly nowMs: number;
}

export interface Health {
  readonly state: Connection_State;
  /** The reason for the state, as a code; empty for a healthy connection. */
  readonly reason: string;
  /** When the state changes by time alone; undefined: never. */
  readonly lookAtMs: number | undefined;
}

/** Credentials that expire within a day expire soon: enough time to ask the end user. */
export const soonMs = 86_400_000;

export function healthOf({ credentials, integration, provider, record, nowMs }: Vitals): Health {
  if (record !== undefined && record.deadReason !== "") {
    return lasting(Connection_State.REAUTHORIZATION_REQUIRED, record.deadReason);
  }
  if (isOfFormerIssuer(credentials, provider)) {
    return lasting(Connection_State.REAUTHORIZATION_REQUIRED, issuerChanged);
  }
  const lacksScopes = record !== undefined && record.lackingScopes.length > 0;
  const working = lacksScopes ? lasting(Connection_State.ACTIVE, insufficientScope) : well;
  const expiresAt = credentialsExpireAt(credentials);
  if (!canRefresh(credentials, provider, nowMs)) {
    if (expiresAt === undefined) return working;
    const endsMs = timestampMs(expiresAt);
    if (endsMs <= nowMs) return lasting(Connection_State.REAUTHORIZATION_REQUIRED, "credentials_expired");
    return ending({ endsMs, nowMs, reason: "credentials_expire", working });
  }
  if (record === undefined) return working;
  if (record.failures > 0) return lasting(Connection_State.REFRESH_FAILING, failingReason(record, nowMs));
  const grantEndsMs = grantEnd({ integration, provider, record });
  if (grantEndsMs === undefined) return working;
  // Only the provider's response proves that the grant has expired.
  return grantEndsMs <= nowMs
    ? lasting(Connection_State.EXPIRING, "grant_expires")
    : ending({ endsMs: grantEndsMs, nowMs, reason: "grant_expires", working });
}

const lasting = (state: Connection_State, reason: string): Health => ({ state, reason, lookAtMs: undefined });
const well = lasting(Connection_State.ACTIVE, "");

interface HealthDeadline {
  readonly endsMs: number;
  readonly nowMs: number;
  readonly reason: string;
  /** The health until then. */
  readonly working: Health;
}

function ending({ endsMs, nowMs, reason, working }: HealthDeadline): Health {
  if (endsMs - nowMs > soonMs) return { ...working, lookAtMs: endsMs - soonMs };
  return { state: Connection_State.EXPIRING, reason, lookAtMs: endsMs };
}

const failingReasons: Readonly<Record<TokenFailureKind, string>> = {
  passing: "provider_unavailable",
  uncertain: "answer_lost",
  unusable: "answer_unusable",
  client_refused: "client_refused",
  misconfigured: "integration_misconfigured",
  grant_dead: "invalid_grant",
  pending: "provider_unavailable",
  slow_down: "provider_unavailable",
};

function failingReason(record: RefreshRecord, nowMs: number): string {
  if (isExhausted(record, nowMs)) return "failing_for_days";
  // A record of a later version may hold a code that is unknown here.
  return failingReasons[record.lastFailure as TokenFailureKind] ?? "provider_unavailable";
}

/** When the refresh token expires, used or not; undefined: never, or not known. */
function grantEnd({
  integration,
  provider,
  record,
}: Pick<Vitals, "integration" | "provider"> & { record: RefreshRecord }) {
  if (provider.auth.case !== "oauth2" || record.grantedAt === undefined) return undefined;
  const lifetimeMs = grantLifetimeMs(provider.auth.value, integration);
  return lifetimeMs === undefined ? undefined : timestampMs(record.grantedAt) + lifetimeMs;
}

function grantLifetimeMs(rules: OAuth2Rules, { oauth }: Pick<Integration, "oauth">): number | undefined {
  const { lifetime, use, testingLifetime, testingExemptScopes = [] } = rules.refreshTokens ?? {};
  const scopes = oauth === undefined || oauth.scopes.length === 0 ? rules.defaultScopes : oauth.scopes;
  const isTesting =
    oauth?.publishing === OAuthApp_Publishing.TESTING && scopes.some((scope) => !testingExemptScopes.includes(scope));
  if (isTesting && testingLifetime !== undefined) return durationMs(testingLifetime);
  // If each use returns a new refresh token, each one starts a new lifetime.
  if (lifetime === undefined || use === RefreshTokenRules_Use.ROTATES) return undefined;
  return durationMs(lifetime);
}
