import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Mistake } from "../base/fault.ts";
import type {
  ClientAssertionRules,
  FurtherToken,
  OAuth2Rules,
  ParameterNames,
  Provider,
  ScopeNote,
} from "../gen/latchkey/v1/provider_pb.ts";
import { checkExchanges, textsOf } from "./check-exchanges.ts";
import { checkPlaceholders } from "./check-placeholders.ts";
import { mistake } from "./mistake.ts";

/** Checks how a provider implements OAuth 2, and where it differs. */
export function checkOAuth2(provider: Provider): Mistake[] {
  const { auth } = provider;
  if (auth.case !== "oauth2" && auth.case !== "oauth2Client") return [];
  const rules = auth.value;
  const { metadataUrl, jwksUrl, issuer, issuerAlways, scopeNotes, renewal } = rules;
  return [
    // RFC 8414, 3.3: without an issuer to compare with, anyone's metadata would be accepted.
    ...(metadataUrl !== "" && issuer === "" ? [mistake("auth.issuer", "is required with a metadata URL")] : []),
    // OpenID Connect Core, 3.1.3.7: a key set may sign for other issuers as well.
    ...(jwksUrl !== "" && issuer === "" ? [mistake("auth.issuer", "is required with a key set")] : []),
    ...(issuerAlways && issuer === "" ? [mistake("auth.issuer", "is required with issuer_always")] : []),
    ...checkScopeNotes(scopeNotes, "auth.scope_notes"),
    // Without a grant type, a refresh token would be sent where an access token is expected.
    ...(renewal !== undefined && renewal.grantType === ""
      ? [mistake("auth.renewal.grant_type", "must name the grant that refreshes tokens")]
      : []),
    ...checkRequests(rules),
    ...checkNames(rules),
    ...checkParams(rules, provider),
    ...checkExchanges(rules.exchanges),
    ...(rules.clientAssertion === undefined ? [] : checkAssertion(rules.clientAssertion, rules)),
    ...(auth.case === "oauth2" ? [...checkCallback(rules, provider), ...checkFurther(rules)] : onlyForUsers(rules)),
  ];
}

/** Checks descriptions of scopes. */
export const checkScopeNotes = (notes: readonly ScopeNote[], path: string): Mistake[] =>
  notes.flatMap(({ scope }, i) => [
    ...(scope === "" ? [mistake(`${path}.${i}.scope`, "must name a scope")] : []),
    ...(notes.findIndex((one) => one.scope === scope) < i ? [mistake(`${path}.${i}.scope`, "is a duplicate")] : []),
  ]);

/** Rules that only make sense where an end user is sent to the provider. */
const onlyForUsers = ({ callbackConfig, furtherTokens }: OAuth2Rules): Mistake[] => [
  ...(Object.keys(callbackConfig).length === 0 ? [] : [mistake("auth.callback_config", "needs oauth2")]),
  ...(Object.keys(furtherTokens).length === 0 ? [] : [mistake("auth.further_tokens", "needs oauth2")]),
];

function checkRequests({ tokenRequestFormat, tokenRequestMethod, refreshRequestMethod, dpop }: OAuth2Rules): Mistake[] {
  const methods = { token_request_method: tokenRequestMethod, refresh_request_method: refreshRequestMethod };
  return Object.entries(methods).flatMap(([name, method]) => {
    if (method !== "GET") return [];
    // The proof (RFC 9449) names the method, and the library always makes it for a POST.
    if (dpop) return [mistake(`auth.${name}`, "must be POST with dpop")];
    const isForAll = name === "token_request_method";
    return isForAll && tokenRequestFormat === "json"
      ? [mistake("auth.token_request_format", "must be query or empty, because a GET has no body")]
      : [];
  });
}

function checkParams({ authorizationParams, tokenParams, refreshParams }: OAuth2Rules, provider: Provider): Mistake[] {
  const params = {
    authorization_params: authorizationParams,
    token_params: tokenParams,
    refresh_params: refreshParams,
  };
  const secrets = provider.integrationSettings.filter(({ secret }) => secret).map(({ name }) => name);
  return textsOf("auth", params).flatMap(([path, text]) => [
    ...checkPlaceholders(text, path, ["integration", "connectionConfig"]),
    ...[...text.matchAll(/\$\{(\w+)\.(\w+)\}/g)].flatMap(([, from = "", name = ""]) => {
      if (from === "connectionConfig" && !provider.connectionFields.some((field) => field.name === name))
        return [mistake(path, `uses connectionConfig.${name}, which is no connection field`)];
      const isShown = path.startsWith("auth.authorization_params.") && from === "integration" && secrets.includes(name);
      return isShown ? [mistake(path, `must not contain integration.${name}: the end user would see a secret`)] : [];
    }),
  ]);
}

const mayBeOmitted = ["response_type", "redirect_uri", "scope", "client_id", "client_secret", "grant_type"];
/** Parameters that no other may be renamed to. */
const otherParameters = ["state", "scope", "response_type", "grant_type", "nonce", "code_challenge", "code_verifier"];

function checkNames({ parameterNames, omittedParams, pushedAuthorizationUrl, dpop }: OAuth2Rules): Mistake[] {
  const { callbackCode = "", ...sent } = namesIn(parameterNames);
  const used = Object.entries({ ...sent, callback_code: callbackCode }).filter(([, name]) => name !== "");
  const path = (name: string) => `auth.parameter_names.${name}`;
  return [
    ...used.flatMap(([name, given]) => [
      ...(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/.test(given) ? [] : [mistake(path(name), "must be the name of a parameter")]),
      ...(otherParameters.includes(given) ? [mistake(path(name), "is the name of another parameter")] : []),
    ]),
    ...Object.entries(sent).flatMap(([name, given], i, all) =>
      given !== "" && all.findIndex((one) => one[1] === given) < i ? [mistake(path(name), "is a duplicate")] : [],
    ),
    ...(parameterNames !== undefined && pushedAuthorizationUrl !== ""
      ? [mistake("auth.parameter_names", "cannot be combined with pushed_authorization_url")]
      : []),
    ...omittedParams.flatMap((name, i) =>
      mayBeOmitted.includes(name)
        ? []
        : [mistake(`auth.omitted_params.${i}`, `must be one of ${mayBeOmitted.join(", ")}`)],
    ),
    ...(omittedParams.includes("client_id") && dpop
      ? [mistake("auth.omitted_params", "cannot contain client_id with dpop")]
      : []),
  ];
}

const namesIn = (names: ParameterNames | undefined): Record<string, string> & { callbackCode?: string } => ({
  client_id: names?.clientId ?? "",
  client_secret: names?.clientSecret ?? "",
  code: names?.code ?? "",
  redirect_uri: names?.redirectUri ?? "",
  refresh_token: names?.refreshToken ?? "",
  callbackCode: names?.callbackCode ?? "",
});

/** Parameters of a callback that have a meaning of their own. */
const ofCallbacks = ["state", "code", "error", "iss", "error_description", "oauth_token", "oauth_verifier", "denied"];

function checkCallback({ callbackConfig, parameterNames }: OAuth2Rules, { connectionFields }: Provider): Mistake[] {
  return Object.entries(callbackConfig).flatMap(([name, parameter]) => {
    const path = `auth.callback_config.${name}`;
    const field = connectionFields.find((one) => one.name === name);
    const isTaken = [...ofCallbacks, parameterNames?.callbackCode ?? ""].includes(parameter);
    return [
      // Anyone can change a callback.
      ...(field === undefined || (field.pattern === "" && field.suffixes.length === 0)
        ? [mistake(path, "needs a connection field of that name with a pattern or suffixes")]
        : []),
      ...(field !== undefined && !field.automatic
        ? [mistake(path, "needs a connection field that is automatic, because end users do not enter it")]
        : []),
      ...(parameter === "" || isTaken ? [mistake(path, "must name a parameter of the callback with the value")] : []),
    ];
  });
}

const maxTokens = 16;

function checkFurther(rules: OAuth2Rules): Mistake[] {
  const tokens = Object.entries(rules.furtherTokens);
  return [
    ...(tokens.length > maxTokens ? [mistake("auth.further_tokens", `must be at most ${maxTokens}`)] : []),
    ...(tokens.length > 0 && rules.dpop ? [mistake("auth.further_tokens", "cannot be combined with dpop")] : []),
    ...tokens.flatMap(([name, token], i) => {
      const others = tokens.slice(0, i).map(([, one]) => one);
      return checkToken(token, `auth.further_tokens.${name}`, rules, others).concat(
        /^[a-z][a-z0-9_-]{0,62}$/.test(name)
          ? []
          : [mistake(`auth.further_tokens.${name}`, "must have a name of lower-case letters, digits, _ and -")],
      );
    }),
  ];
}

function checkToken(token: FurtherToken, path: string, rules: OAuth2Rules, others: readonly FurtherToken[]): Mistake[] {
  const { scopeParameter, defaultScopes, scopeNotes, tokenAnswer } = token;
  const accessToken = tokenAnswer?.accessToken ?? "";
  const taken = [rules.scopeParameter || "scope", ...others.map((one) => one.scopeParameter)];
  const places = [rules.tokenAnswer?.accessToken || "access_token", ...others.map(placeOf)];
  const isOwn = (kept: object | undefined) => Object.keys(kept ?? {}).length > 0;
  return [
    ...(accessToken === ""
      ? [mistake(`${path}.token_answer.access_token`, "must name the place of the token")]
      : places.includes(accessToken)
        ? [mistake(`${path}.token_answer.access_token`, "is the place of another token")]
        : []),
    ...(isOwn(tokenAnswer?.connectionConfig) || isOwn(tokenAnswer?.metadata)
      ? [mistake(`${path}.token_answer`, "cannot store further values: the main token_answer does")]
      : []),
    ...(scopeParameter === "" && defaultScopes.length + scopeNotes.length > 0
      ? [mistake(`${path}.scope_parameter`, "must name the parameter of these scopes")]
      : []),
    ...(taken.includes(scopeParameter) || otherParameters.includes(scopeParameter)
      ? [mistake(`${path}.scope_parameter`, "is the name of another parameter")]
      : []),
    ...checkScopeNotes(scopeNotes, `${path}.scope_notes`),
  ];
}

const placeOf = ({ tokenAnswer }: FurtherToken): string => tokenAnswer?.accessToken ?? "";

function checkAssertion(
  { header, lifetime, audience }: ClientAssertionRules,
  { tokenEndpointAuthMethod: method }: OAuth2Rules,
): Mistake[] {
  const lifeMs = lifetime === undefined ? 60_000 : durationMs(lifetime);
  return [
    ...(method.endsWith("_jwt")
      ? []
      : [mistake("auth.client_assertion", "needs client_secret_jwt or private_key_jwt")]),
    ...(lifeMs < 10_000 || lifeMs > 3_600_000
      ? [mistake("auth.client_assertion.lifetime", "must be from 10 seconds to an hour")]
      : []),
    ...(audience.includes("${") ? [mistake("auth.client_assertion.audience", "must not contain placeholders")] : []),
    ...Object.entries(header).flatMap(([name, text]) => [
      ...(["alg", "typ"].includes(name) ? [mistake(`auth.client_assertion.header.${name}`, "cannot be set")] : []),
      ...checkPlaceholders(text, `auth.client_assertion.header.${name}`, ["integration"]),
    ]),
  ];
}
