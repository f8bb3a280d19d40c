import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { namedToken } from "../../../auth/oauth2/further-tokens.ts";
import type { Tokens } from "../../../auth/oauth2/tokens.ts";
import { missingScopes } from "../../../core/granted-scopes.ts";
import type { PendingAuthorization } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";

/** The credentials and data that an authorization brought. */
export interface GrantResult {
  readonly credentials: Credentials;
  readonly connectionConfig: JsonObject;
  readonly metadata: JsonObject;
  readonly grantedScopes: readonly string[];
  readonly missingScopes: readonly string[];
}

/** Converts tokens into the result of the grant. */
export function grantResultOf(
  tokens: Tokens,
  {
    scopes,
    connectionConfig,
    issuer = "",
  }: Pick<PendingAuthorization, "scopes" | "connectionConfig"> & Partial<Pick<PendingAuthorization, "issuer">>,
): GrantResult {
  const granted = tokens.scopes ?? scopes;
  return {
    credentials: oauth2Credentials(tokens, issuer),
    connectionConfig: { ...connectionConfig, ...tokens.connectionConfig },
    metadata: tokens.metadata,
    grantedScopes: granted,
    missingScopes: missingScopes(scopes, granted),
  };
}

function oauth2Credentials(tokens: Tokens, issuer: string): Credentials {
  const { accessToken, refreshToken = "", dpopKey = "", raw } = tokens;
  const named = Object.entries(tokens.furtherTokens ?? {});
  const furtherTokens = Object.fromEntries(named.map(([name, one]) => [name, namedToken(one)]));
  const value = { accessToken, refreshToken, raw, dpopKey, furtherTokens, issuer, ...tokenExpiry(tokens) };
  return create(CredentialsSchema, { kind: { case: "oauth2", value } });
}

/** The expiry of an access token, if known. */
export const tokenExpiry = ({ expiresAtMs }: Pick<Tokens, "expiresAtMs">) =>
  expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) };
