import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { ownClient } from "../../auth/token-refresh.ts";
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** A token of a grant, by its name in `TokenRevocation`. */
export interface GrantToken {
  readonly name: "refresh_token" | "access_token";
  readonly value: string;
}

/** How a grant is revoked. `unsupported`: the provider's description names no way. */
export type RevocationWay = "endpoint" | "request" | "unsupported";

/** Clocks differ: a token counts as expired only after this time. */
const clockMarginMs = 300_000;

/** Returns the tokens of a grant, the refresh token first. None if the credentials are no grant of an end user. */
export function grantTokensOf(credentials: Credentials): readonly GrantToken[] {
  const { kind } = credentials;
  if (kind.case === "oauth2") return named(kind.value.refreshToken, kind.value.accessToken);
  if (kind.case === "twoStep") return named(kind.value.refreshToken, kind.value.token);
  if (kind.case === "oauth1") return named("", kind.value.oauthToken);
  return [];
}

/** Returns the further tokens of credentials, by name, each as credentials of its own with the same OAuth client. */
export function furtherCredentials({ kind }: Credentials): readonly (readonly [name: string, held: Credentials])[] {
  if (kind.case !== "oauth2") return [];
  const { configOverride } = kind.value;
  return Object.entries(kind.value.furtherTokens).map(([name, { accessToken, refreshToken, expiresAt }]) => {
    const value = {
      accessToken,
      refreshToken,
      ...(expiresAt !== undefined && { expiresAt }),
      ...(configOverride !== undefined && { configOverride }),
    };
    return [name, create(CredentialsSchema, { kind: { case: "oauth2", value } })];
  });
}

function named(refreshToken: string, accessToken: string): readonly GrantToken[] {
  const all = [
    { name: "refresh_token", value: refreshToken },
    { name: "access_token", value: accessToken },
  ] as const;
  return all.filter(({ value }) => value !== "");
}

/** Returns the tokens that a revocation names: an expired access token needs none at an endpoint. */
export function tokensToRevoke(credentials: Credentials, way: RevocationWay, nowMs: number): readonly GrantToken[] {
  const tokens = grantTokensOf(credentials);
  if (way === "request" || !isAccessExpired(credentials, nowMs - clockMarginMs)) return tokens;
  return tokens.filter(({ name }) => name !== "access_token");
}

export function isAccessExpired({ kind }: Credentials, nowMs: number): boolean {
  const expiresAt = kind.case === "oauth2" || kind.case === "twoStep" ? kind.value.expiresAt : undefined;
  return expiresAt !== undefined && timestampMs(expiresAt) <= nowMs;
}

export function revocationWayOf({ auth, revocation }: Provider): RevocationWay {
  if (revocation?.request !== undefined) return "request";
  if (auth.case !== "oauth2") return "unsupported";
  const { revocationUrl, metadataUrl } = auth.value;
  // The metadata may name an endpoint.
  return revocationUrl === "" && metadataUrl === "" ? "unsupported" : "endpoint";
}

interface GrantClient {
  readonly credentials?: Credentials | undefined;
  readonly integration?: Pick<Integration, "oauth"> | undefined;
  readonly secrets?: Pick<IntegrationSecrets, "clientSecret"> | undefined;
}

/** Returns the OAuth client that obtained the tokens: the connection's own, or the integration's. */
export function clientOf({ credentials, integration, secrets }: GrantClient) {
  const own = credentials === undefined ? undefined : ownClientOf(credentials);
  return own ?? { id: integration?.oauth?.clientId ?? "", secret: secrets?.clientSecret ?? "" };
}

/** Returns the connection's own OAuth client. */
export const ownClientOf = ({ kind }: Credentials) =>
  kind.case === "oauth2" ? ownClient(kind.value.configOverride) : undefined;
