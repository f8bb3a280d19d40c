import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { furtherRefreshOf, withRefreshedToken } from "./oauth2/further-tokens.ts";
import { isOfFormerIssuer } from "./oauth2/token-issuer.ts";
import type { Tokens } from "./oauth2/tokens.ts";
import { schemeOf } from "./schemes.ts";
import type { TokenRefresh } from "./token-refresh.ts";

interface RefreshableCredentials {
  readonly credentials: Credentials;
  readonly provider: Provider;
  readonly integration: Pick<Integration, "oauth">;
}

/**
 * Returns the request that refreshes credentials, or one of their further tokens; undefined without a token endpoint,
 * or without what it needs.
 */
export function tokenRefreshOf(refreshable: RefreshableCredentials, further?: string): TokenRefresh | undefined {
  if (isOfFormerIssuer(refreshable.credentials, refreshable.provider)) return undefined;
  if (further !== undefined) return furtherRefreshOf(refreshable.credentials, refreshable.provider, further);
  const { credentials, provider, integration } = refreshable;
  const { kind } = credentials;
  const { auth } = provider;
  if (kind.case === undefined || auth.case === undefined) return undefined;
  if (!schemeOf(auth.case).hasTokenEndpoint(auth.value)) return undefined;
  const scopes = integration.oauth?.scopes ?? [];
  return schemeOf(kind.case).refresh(kind.value, { rules: rulesFor(kind, auth), scopes });
}

/** Whether new credentials can be obtained without the end user. */
export function canRefresh(credentials: Credentials, provider: Provider, nowMs: number): boolean {
  const { kind } = credentials;
  if (kind.case === undefined || isOfFormerIssuer(credentials, provider)) return false;
  return schemeOf(kind.case).canRefresh(kind.value, { rules: rulesFor(kind, provider.auth), nowMs });
}

/** Returns the refreshed credentials. Values that the response does not name stay as they were. */
export function refreshedCredentials({ kind }: Credentials, tokens: Tokens, further?: string): Credentials["kind"] {
  if (kind.case === undefined) throw new Error("credentials of no kind are not refreshed");
  if (further !== undefined && kind.case === "oauth2") {
    return { case: "oauth2", value: withRefreshedToken(kind.value, further, tokens) };
  }
  const value = schemeOf(kind.case).refreshed(kind.value, tokens);
  // A scheme returns credentials of its own kind.
  return { case: kind.case, value } as Credentials["kind"];
}

/** The provider's rules, if it still takes credentials of this kind. */
const rulesFor = (kind: Credentials["kind"], auth: Provider["auth"]) =>
  kind.case === auth.case ? auth.value : undefined;
