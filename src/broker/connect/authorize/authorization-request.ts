import type { OAuth2Rules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { renamed } from "../../tokens/written-parameters.ts";

/** Values of an authorization request (RFC 6749, section 4.1.1; RFC 7636; OpenID Connect). */
export interface AuthorizationRequest {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly state: string;
  /** Undefined: the provider does not support PKCE. */
  readonly challenge: string | undefined;
  /** Undefined: no `id_token` is requested. */
  readonly nonce: string | undefined;
  readonly scopes: readonly string[];
  /** The scopes of further tokens, by the parameter that carries them. */
  readonly furtherScopes: Readonly<Record<string, readonly string[]>>;
  /** The end user already has a connection, and its granted scopes must remain. */
  readonly isFurther: boolean;
  /** Parameters of the session and of the starting page, which replace the provider's. */
  readonly params: Readonly<Record<string, string | undefined>>;
}

/** Parameters that only Latchkey sets: changing one of them could redirect the response elsewhere. */
const reserved = new Set([
  "response_type",
  "response_mode",
  "client_id",
  "client_secret",
  "redirect_uri",
  "state",
  "nonce",
  "scope",
  "code_challenge",
  "code_challenge_method",
  "request",
  "request_uri",
  "dpop_jkt",
]);

type NamingRules = Pick<OAuth2Rules, "scopeParameter" | "parameterNames" | "furtherTokens">;

export function isReserved(parameter: string, { scopeParameter, parameterNames, furtherTokens }: NamingRules): boolean {
  const read = asRead(parameter);
  if (reservedAsRead.has(read)) return true;
  const { clientId = "", clientSecret = "", redirectUri = "" } = parameterNames ?? {};
  const ofTokens = Object.values(furtherTokens).map((token) => token.scopeParameter);
  return [scopeParameter, clientId, clientSecret, redirectUri, ...ofTokens].some(
    (name) => name !== "" && read === asRead(name),
  );
}

/** Normalizes a name: some servers ignore case, and accept `redirect.uri` or `redirect_uri[]` as `redirect_uri`. */
const asRead = (name: string): string =>
  name
    .toLowerCase()
    .replace(/\[.*$/s, "")
    .replace(/[^a-z0-9]/g, "");
const reservedAsRead = new Set([...reserved].map(asRead));

/** The parameters of an authorization request by name, including the client ID. */
export function authorizationParameters(rules: OAuth2Rules, request: AuthorizationRequest): Record<string, string> {
  const { clientId, redirectUri, state, challenge, nonce, scopes, furtherScopes, isFurther, params } = request;
  const { authorizationParams, incrementalParams, scopeSeparator, scopeParameter, parameterNames: names } = rules;
  const written = (list: readonly string[]) => list.join(scopeSeparator || " ");
  const free = { ...authorizationParams, ...(isFurther ? incrementalParams : {}), ...params };
  const all: Record<string, string | undefined> = {
    ...Object.fromEntries(Object.entries(free).filter(([name]) => !isReserved(name, rules))),
    response_type: "code",
    client_id: clientId,
    // eBay wants the ID under which it knows the redirect URI.
    redirect_uri: authorizationParams["redirect_uri"] ?? redirectUri,
    state,
    ...(scopes.length === 0 ? {} : { [scopeParameter || "scope"]: written(scopes) }),
    ...Object.fromEntries(Object.entries(furtherScopes).map(([parameter, list]) => [parameter, written(list)])),
    ...(challenge === undefined ? {} : { code_challenge: challenge, code_challenge_method: "S256" }),
    ...(nonce === undefined ? {} : { nonce }),
  };
  const present = Object.entries(all).filter((one): one is [string, string] => one[1] !== undefined);
  return Object.fromEntries(renamed(present, { names, omitted: rules.omittedParams }));
}

/** Sets these parameters in the query of an address, replacing existing ones of the same names. */
export function withQuery(address: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  // Encodes a space as `%20`: a provider that reads `+` literally would see another scope.
  url.search = url.searchParams.toString().replaceAll("+", "%20");
  return url.href;
}
