import type { JsonObject } from "@bufbuild/protobuf";
import { CannotAttach } from "../../auth/attachment.ts";
import { mintJwt } from "../../auth/jwt/mint.ts";
import { optionalValues } from "../../auth/jwt/optional-values.ts";
import { describedKindOf } from "../../auth/oauth2/token-failures.ts";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import { fill, fillText, find, type Values } from "../../auth/template.ts";
import type { SendSmallRequest, SmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { filledUrl } from "../../core/outgoing/filled-url.ts";
import type { TokenRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { certificateOf } from "./client-certificates.ts";
import { integrationTexts } from "./integration-texts.ts";
import { readTokenAnswer } from "./token-answer.ts";
import type { TokenGrant, TokenRequest } from "./token-endpoint.ts";
import { furtherExchanges } from "./token-exchanges.ts";
import { misconfigured } from "./token-failure.ts";
import { takenFrom } from "./token-limits.ts";
import { withParameters } from "./written-parameters.ts";

type CustomGrant = Extract<TokenGrant, { readonly type: "described" }>;

/**
 * Requests tokens as a provider's description defines: an installed app's request, or fields exchanged for a token. No
 * RFC.
 */
export async function askDescribed(
  request: TokenRequest & { readonly grant: CustomGrant },
  { send, world }: { readonly send: SendSmallRequest; readonly world: World },
): Promise<Tokens> {
  const rules = tokenRulesOf(request);
  const described = describedRequest(request, rules, world.now());
  const sentAtMs = world.now();
  const answer = await send({ ...described, clientCertificate: certificateOf(request) }, { signal: request.signal });
  const answered = { status: answer.status, contentType: answer.header("content-type"), body: answer.body };
  const { tokenAnswer: at, defaultLifetime } = rules;
  const reading = readTokenAnswer(answered, { at, defaultLifetime, sentAtMs, isBound: false });
  const isByIntegrationKey = sendsJwt(rules) && keyField(request, rules) === undefined;
  const isConnectionInUrl = rules.tokenUrl.includes("${credentials.");
  const tokens = takenFrom(reading, {
    parties: request,
    answer,
    secrets: textsIn(request.grant.fields),
    kindOf: (status, code) => describedKindOf({ status, code, isByIntegrationKey, isConnectionInUrl }),
    nowMs: world.now(),
  });
  return { ...(await furtherExchanges(tokens, rules.exchanges, { request, send, world })), dpopKey: undefined };
}

function tokenRulesOf({ provider: { auth } }: TokenRequest): TokenRules {
  if (auth.case === "app" || auth.case === "twoStep" || auth.case === "signature") return auth.value;
  throw misconfigured("not_described", "the provider's description defines no token request");
}

/**
 * Throws `CannotAttach` for a required field that is missing, and `UnboundHost` for a field that fits into no address.
 */
function describedRequest(
  request: TokenRequest & { readonly grant: CustomGrant },
  rules: TokenRules,
  nowMs: number,
): SmallRequest {
  const { provider, integration, connectionConfig: config, grant } = request;
  const defaults = integration.connectionDefaults;
  const values: Values = {
    credentials: grant.fields,
    connectionConfig: { ...defaults, ...config },
    integration: integrationTexts(request),
  };
  const { connectionFields: fields } = provider;
  const url = filledUrl(rules.tokenUrl, { fields, config, defaults, credentials: grant.fields });
  const { method = "", format = "", headers = {}, authorization = "" } = rules.request ?? {};
  const params =
    rules.request?.params ?? Object.fromEntries(rules.fields.map((name) => [name, `\${credentials.${name}}`]));
  const own = Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name.toLowerCase(), fillText(text, values)]),
  );
  const signed: JwtRequest = { request, rules, values, nowMs };
  const authorized = authorizationOf(authorization, signed);
  // Minted only where it is used, since it needs a key.
  const isJwtSent = Object.values(params).some((text) => text.includes("${jwt}"));
  const filling: Values = isJwtSent ? { ...values, jwt: jwtOf(signed) } : values;
  const common = {
    method: method === "" ? "POST" : method,
    headers: { accept: "application/json", ...own, ...authorized },
  };
  if (method === "GET") return { ...common, url: withParameters(url, formOf(params, filling)) };
  if (format === "json") {
    const body = Object.fromEntries(Object.entries(params).map(([name, text]) => [name, fill(text, filling)]));
    return {
      ...common,
      url,
      headers: { "content-type": "application/json", ...common.headers },
      body: JSON.stringify(body),
    };
  }
  const form = { "content-type": "application/x-www-form-urlencoded" };
  return {
    ...common,
    url,
    headers: { ...form, ...common.headers },
    body: String(new URLSearchParams(formOf(params, filling))),
  };
}

const sendsJwt = ({ request }: TokenRules): boolean =>
  request?.authorization === "jwt" || Object.values(request?.params ?? {}).some((text) => text.includes("${jwt}"));

const formOf = (params: Readonly<Record<string, string>>, values: Values) =>
  Object.entries(params).map(([name, text]): [string, string] => [name, fillText(text, values)]);

interface JwtRequest {
  readonly request: TokenRequest & { readonly grant: CustomGrant };
  readonly rules: TokenRules;
  readonly values: Values;
  readonly nowMs: number;
}

function authorizationOf(authorization: string, signed: JwtRequest): Readonly<Record<string, string>> {
  if (authorization === "basic") {
    const pair = fillText("${credentials.username}:${credentials.password}", signed.values);
    return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
  }
  return authorization === "jwt" ? { authorization: `Bearer ${jwtOf(signed)}` } : {};
}

/** Returns a new JWT of the connection, signed with its own key or the integration's. */
function jwtOf({ request, rules, values, nowMs }: JwtRequest): string {
  if (rules.jwt === undefined) throw misconfigured("jwt_missing", "the provider's description does not define the JWT");
  const key = keyField(request, rules) ?? request.secrets?.privateKey ?? "";
  if (key === "") throw new CannotAttach("the key that signs the token is missing");
  return mintJwt({ rules: rules.jwt, key, values, optional: optionalValues(request.provider), nowMs }).token;
}

/** Returns the connection's own key, if there is one. */
function keyField({ grant }: { readonly grant: CustomGrant }, { jwt }: TokenRules): string | undefined {
  const key = jwt === undefined || jwt.keyField === "" ? undefined : find(jwt.keyField, grant.fields);
  return typeof key === "string" && key !== "" ? key : undefined;
}

function textsIn(fields: JsonObject): string[] {
  return Object.values(fields).flatMap((value) =>
    typeof value === "string"
      ? [value]
      : typeof value === "object" && value !== null
        ? textsIn({ ...value } as JsonObject)
        : [],
  );
}
