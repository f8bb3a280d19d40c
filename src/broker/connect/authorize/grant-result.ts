import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { NamedTokens, Tokens } from "../../../auth/oauth2/tokens.ts";
import { missingScopes } from "../../../core/granted-scopes.ts";
import type { PendingAuthorization } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Credentials,
  CredentialsSchema,
  type NamedToken,
  NamedTokenSchema,
} from "../../../gen/latchkey/v1/credentials_pb.ts";

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
  { scopes, connectionConfig }: Pick<PendingAuthorization, "scopes" | "connectionConfig">,
): GrantResult {
  const granted = tokens.scopes ?? scopes;
  return {
    credentials: oauth2Credentials(tokens),
    connectionConfig: { ...connectionConfig, ...tokens.connectionConfig },
    metadata: tokens.metadata,
    grantedScopes: granted,
    missingScopes: missingScopes(scopes, granted),
  };
}

function oauth2Credentials(tokens: Tokens): Credentials {
  const { accessToken, refreshToken = "", dpopKey = "", raw } = tokens;
  const furtherTokens = Object.fromEntries(Object.entries(tokens.furtherTokens ?? {}).map(namedToken));
  const value = { accessToken, refreshToken, raw, dpopKey, furtherTokens, ...tokenExpiry(tokens) };
  return create(CredentialsSchema, { kind: { case: "oauth2", value } });
}

const namedToken = ([name, tokens]: readonly [string, NamedTokens]): [string, NamedToken] => {
  const { accessToken, refreshToken = "", scopes = [] } = tokens;
  return [name, create(NamedTokenSchema, { accessToken, refreshToken, scopes: [...scopes], ...tokenExpiry(tokens) })];
};

/** The expiry of an access token, if known. */
export const tokenExpiry = ({ expiresAtMs }: Pick<Tokens, "expiresAtMs">) =>
  expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) };
