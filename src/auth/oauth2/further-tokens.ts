import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { type Credentials, type NamedToken, NamedTokenSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { CredentialsOf } from "../scheme.ts";
import { expiryOf, ownClient, type TokenRefresh } from "../token-refresh.ts";
import { hasOAuth2Endpoint } from "./token-endpoint.ts";
import type { NamedTokens, Tokens } from "./tokens.ts";

/** Returns a further token of the credentials; undefined if they have none of that name. */
export function furtherTokenOf({ kind }: Credentials, name: string): NamedToken | undefined {
  if (kind.case !== "oauth2" || !Object.hasOwn(kind.value.furtherTokens, name)) return undefined;
  return kind.value.furtherTokens[name];
}

export const furtherTokenNames = ({ kind }: Credentials): readonly string[] =>
  kind.case === "oauth2" ? Object.keys(kind.value.furtherTokens) : [];

/** Returns the request that refreshes a further token; undefined if there is nothing to refresh it with. */
export function furtherRefreshOf(
  credentials: Credentials,
  { auth }: Pick<Provider, "auth">,
  name: string,
): TokenRefresh | undefined {
  const token = furtherTokenOf(credentials, name);
  const { kind } = credentials;
  if (token === undefined || kind.case !== "oauth2" || auth.case !== "oauth2" || !hasOAuth2Endpoint(auth.value)) {
    return undefined;
  }
  const { refreshToken, deadReason } = token;
  if (refreshToken === "" || deadReason !== "") return undefined;
  const grant = { type: "refresh_token", refreshToken } as const;
  const client = ownClient(kind.value.configOverride);
  return { client, dpopKey: undefined, grant, spent: refreshToken, further: name };
}

/** Makes a token to store with the credentials. */
export function namedToken(tokens: NamedTokens): NamedToken {
  const { accessToken, refreshToken = "", scopes = [] } = tokens;
  return create(NamedTokenSchema, { accessToken, refreshToken, scopes: [...scopes], ...expiryOf(tokens) });
}

/** Returns credentials with a refreshed further token, also where `raw` shows it. */
export function withRefreshedToken(
  credentials: CredentialsOf<"oauth2">,
  name: string,
  tokens: Tokens,
): CredentialsOf<"oauth2"> {
  const { furtherTokens, raw } = credentials;
  const before = furtherTokens[name];
  const { accessToken, refreshToken = before?.refreshToken, scopes = before?.scopes } = tokens;
  const after = namedToken({ accessToken, refreshToken, scopes, expiresAtMs: tokens.expiresAtMs });
  const replaced = new Map([
    [before?.accessToken ?? "", after.accessToken],
    [before?.refreshToken ?? "", after.refreshToken],
  ]);
  replaced.delete("");
  const shown = (value: JsonValue): JsonValue => {
    if (typeof value === "string") return replaced.get(value) ?? value;
    if (Array.isArray(value)) return value.map(shown);
    return typeof value === "object" && value !== null ? inObject(value) : value;
  };
  const inObject = (object: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(object).map(([key, value]) => [key, shown(value)]));
  return {
    ...credentials,
    furtherTokens: { ...furtherTokens, [name]: after },
    ...(raw === undefined ? {} : { raw: inObject(raw) }),
  };
}

/** Returns credentials whose further token can no longer be refreshed. */
export function withDeadToken(credentials: Credentials, name: string, reason: string): Credentials {
  const { kind } = credentials;
  const token = furtherTokenOf(credentials, name);
  if (kind.case !== "oauth2" || token === undefined) return credentials;
  const furtherTokens = { ...kind.value.furtherTokens, [name]: { ...token, deadReason: reason.slice(0, 64) } };
  return { ...credentials, kind: { case: "oauth2", value: { ...kind.value, furtherTokens } } };
}
