import { assertNever } from "../base/assert-never.ts";
import type { Mistake } from "../base/fault.ts";
import {
  type ConnectionField,
  type OAuth2Rules,
  type Provider,
  ProviderSchema,
  type RequestTemplate,
} from "../gen/latchkey/v1/provider_pb.ts";
import { checkChannel } from "./check-channel.ts";
import { checkChoices } from "./check-choices.ts";
import { checkDottedPaths } from "./check-dotted-paths.ts";
import { checkFilledFields, checkNames } from "./check-filled-fields.ts";
import { checkNotification } from "./check-notification.ts";
import { checkOAuth2 } from "./check-oauth2.ts";
import { checkOnBehalf } from "./check-on-behalf.ts";
import { checkRequest, isRead } from "./check-request.ts";
import { checkRevocation } from "./check-revocation.ts";
import { checkTokenRules } from "./check-token-rules.ts";
import { checkOrigin, checkPrefix, checkUrl } from "./check-url.ts";
import { patternMistake } from "./field-pattern.ts";
import { mistake } from "./mistake.ts";

const authKinds = ProviderSchema.oneofs.flatMap(({ fields }) => fields.map(({ name }) => name));

/** Checks a provider's description beyond its schema, so that it cannot send credentials to a wrong place. */
export function checkProvider(provider: Provider): Mistake[] {
  const { auth, proxy, connectionFields, notification } = provider;
  return [
    ...checkMcp(provider),
    ...(auth.case === undefined
      ? [mistake("auth", `must have one kind of authentication: ${authKinds.join(", ")}`)]
      : []),
    ...checkUrl({ url: proxy?.baseUrl ?? "", path: "proxy.base_url", fields: connectionFields, isBase: true }),
    ...(proxy?.hosts ?? []).flatMap(({ prefix, origin }, i) => [
      ...checkPrefix(prefix, `proxy.hosts.${i}.prefix`),
      ...checkOrigin(origin, `proxy.hosts.${i}.origin`),
    ]),
    ...connectionFields.flatMap((field, i) => checkField(field, `connection_fields.${i}`)),
    ...twice(connectionFields.map(({ name }) => name)).map((i) =>
      mistake(`connection_fields.${i}.name`, "is a duplicate"),
    ),
    ...endpoints(provider).flatMap(([name, url]) =>
      checkUrl({
        url,
        path: `auth.${name}`,
        fields: connectionFields,
        mayNameCredentials: isOfExchange(provider) && name === "token_url",
        isForBrowsers: name === "authorization_url",
      }),
    ),
    ...checkOAuth2(provider),
    ...checkOnBehalf(provider),
    ...checkTokenRules(provider),
    ...(notification === undefined
      ? []
      : checkNotification(
          notification,
          provider.integrationSettings.map(({ name }) => name),
        )),
    ...(notification?.lookups ?? []).flatMap(({ field }, i) => checkTarget(field, `notification.lookups.${i}.field`)),
    ...provider.describe.flatMap(({ request, field, value }, i) => [
      ...checkRequest(request, `describe.${i}.request`, isRead),
      ...checkTarget(field, `describe.${i}.field`),
      ...(value === "" ? [mistake(`describe.${i}.value`, "must name the place of the value")] : []),
    ]),
    ...provider.choices.flatMap(({ request }, i) => [
      ...checkRequest(request, `choices.${i}.request`, isRead),
      ...checkNames(textOf(request), `choices.${i}.request`, provider),
    ]),
    ...checkChoices(provider),
    ...checkFilledFields(provider),
    ...checkDottedPaths(provider),
    ...checkRevocation(provider),
    ...checkChannel(provider),
    ...(provider.verification === undefined
      ? []
      : checkRequest(provider.verification.request, "verification.request", isRead)),
  ];
}

function checkField({ pattern, suffixes, defaultValue }: ConnectionField, path: string): Mistake[] {
  const wrong = patternMistake(pattern);
  if (wrong !== undefined) return [mistake(`${path}.pattern`, wrong)];
  const whole = pattern === "" ? /^/ : new RegExp(`^(?:${pattern})$`, "u");
  return [
    ...suffixes.flatMap((suffix, i) =>
      // A suffix of one label would be a domain in which anyone can have a host.
      /^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/.test(suffix)
        ? []
        : [mistake(`${path}.suffixes.${i}`, "must be a domain of two labels or more, such as provider.com")],
    ),
    ...(defaultValue === "" || (whole.test(defaultValue) && isWithin(defaultValue, suffixes))
      ? []
      : [mistake(`${path}.default_value`, "does not match the pattern or the suffixes")]),
  ];
}

const isWithin = (host: string, suffixes: readonly string[]) =>
  suffixes.length === 0 || suffixes.some((suffix) => `.${host}`.endsWith(`.${suffix}`));

/** Returns the indexes of repeated names. */
const twice = (names: readonly string[]): number[] => names.flatMap((name, i) => (names.indexOf(name) < i ? [i] : []));

/** Checks that a field is one of a connection that a description may write and look up. */
const checkTarget = (field: string, path: string): Mistake[] =>
  /^(metadata|connection_config)\.[^.]+$/.test(field)
    ? []
    : [mistake(path, "must be metadata.NAME or connection_config.NAME")];

const textOf = (request: RequestTemplate | undefined): string =>
  request === undefined ? "" : [request.path, request.body, ...Object.values(request.headers)].join(" ");

const isOfExchange = ({ auth }: Provider) =>
  auth.case === "app" || auth.case === "twoStep" || auth.case === "signature";

const oauth2Endpoints = (rules: OAuth2Rules): [string, string][] => [
  ["authorization_url", rules.authorizationUrl],
  ["token_url", rules.tokenUrl],
  ["refresh_url", rules.refreshUrl],
  ["revocation_url", rules.revocationUrl],
  ["device_authorization_url", rules.deviceAuthorizationUrl],
  ["pushed_authorization_url", rules.pushedAuthorizationUrl],
  ["metadata_url", rules.metadataUrl],
  ["jwks_url", rules.jwksUrl],
  ...exchangeUrls(rules),
];

const endpointsWithin = (place: string, rules: OAuth2Rules | undefined): [string, string][] =>
  rules === undefined ? [] : oauth2Endpoints(rules).map(([name, url]) => [`${place}.${name}`, url]);

const exchangeUrls = ({ exchanges }: Pick<OAuth2Rules, "exchanges">): [string, string][] =>
  exchanges.map(({ url }, i) => [`exchanges.${i}.url`, url]);

/**
 * Returns every URL that receives a secret of a client or user, or an end user, or that decides which issuer or keys
 * are trusted.
 */
function endpoints({ auth }: Provider): [string, string][] {
  switch (auth.case) {
    case "oauth2":
    case "oauth2Client":
      return oauth2Endpoints(auth.value);
    case "onBehalf": {
      const { authorizationServer, identityProvider } = auth.value;
      return [
        ...endpointsWithin("authorization_server", authorizationServer),
        ...endpointsWithin("identity_provider", identityProvider),
      ];
    }
    case "oauth1":
    case "tba":
      return [
        ["request_token_url", auth.value.requestTokenUrl],
        ["authorization_url", auth.value.authorizationUrl],
        ["access_token_url", auth.value.accessTokenUrl],
      ];
    case "app":
    case "jwt":
    case "twoStep":
    case "signature":
      return [
        ["token_url", auth.value.tokenUrl],
        ...exchangeUrls(auth.value),
        ["installation_proof.token_url", auth.value.installationProof?.tokenUrl ?? ""],
        ["installation_proof.list_url", auth.value.installationProof?.listUrl ?? ""],
      ];
    case "apiKey":
    case "basic":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return [];
    default:
      return assertNever(auth);
  }
}

/** Checks the description of an MCP server. One with OAuth for end users is discovered, and never described. */
function checkMcp({ mcp, auth, proxy }: Provider): Mistake[] {
  if (mcp === undefined) return [];
  if (auth.case === "oauth2") return [mistake("mcp", "is written by Latchkey; create an integration with `mcp_url`")];
  const { $typeName: _, $unknown: __, url, authMethods, ...discovered } = mcp;
  const isMore =
    authMethods.length > 0 ||
    Object.values(discovered).some((value) => value !== "" && value !== false && value !== undefined);
  if (isMore) return [mistake("mcp", "may have only `url`: the rest is discovered")];
  const mistakes = url === "" ? [mistake("mcp.url", "is missing")] : checkUrl({ url, path: "mcp.url", fields: [] });
  if (mistakes.length > 0) return mistakes;
  if (url.includes("${")) return [mistake("mcp.url", "must have no placeholders")];
  const { origin } = new URL(url);
  if ((proxy?.hosts.length ?? 0) > 0) return [mistake("proxy.hosts", "must be absent: an MCP server has one address")];
  return proxy?.baseUrl === origin ? [] : [mistake("proxy.base_url", `must be ${origin}, the origin of \`mcp.url\``)];
}
