import type { Mistake } from "../base/fault.ts";
import type { Provider, RequestTemplate } from "../gen/latchkey/v1/provider_pb.ts";
import { patternMistake } from "./field-pattern.ts";
import { mistake } from "./mistake.ts";

const placeholders = /\$\{([^}]*)\}/g;
const placeholdersIn = (text: string): readonly string[] =>
  [...text.matchAll(placeholders)].map(([, name = ""]) => name);

/** Checks the values that a description fills into headers, parameters and requests, and where it fills them. */
export const checkFilledFields = (provider: Provider): Mistake[] => [
  ...checkSettings(provider),
  ...checkIntegrationNames(provider),
  ...checkProxyFields(provider),
];

function checkSettings({ integrationSettings }: Provider): Mistake[] {
  const names = integrationSettings.map(({ name }) => name);
  return integrationSettings.flatMap(({ name, pattern }, i) => {
    const at = `integration_settings.${i}`;
    const wrongPattern = patternMistake(pattern);
    return [
      ...(names.indexOf(name) < i ? [mistake(`${at}.name`, "is a duplicate")] : []),
      ...(ofApp.includes(name) ? [mistake(`${at}.name`, "is a value of the OAuth app: choose another name")] : []),
      ...(wrongPattern === undefined ? [] : [mistake(`${at}.pattern`, wrongPattern)]),
    ];
  });
}

const ofApp = ["clientId", "clientSecret", "scopes"];

/** Parts that may contain the other values of the app: requests for tokens, and those that end them. */
const mayNameApp = /^(?:auth|revocation)\./;

/** Finds every `${integration.NAME}` of a description, so that a template that is added later is checked as well. */
function checkIntegrationNames(provider: Provider): Mistake[] {
  const known = new Set(provider.integrationSettings.map(({ name }) => name));
  const { auth, ...rest } = provider;
  return [...textsIn({ auth: auth.value, ...rest }, [])].flatMap(([path, text]) =>
    placeholdersIn(text).flatMap((placeholder) => {
      const [from, name = ""] = placeholder.split(/\.(.*)/s);
      if (from !== "integration" || name === "clientId" || known.has(name)) return [];
      if (ofApp.includes(name) && mayNameApp.test(path)) return [];
      const isOfApp = path.startsWith("channel.") && provider.channel?.authorization === "none";
      if (isOfApp && name === "clientSecret") return [];
      return [mistake(path, `uses integration.${name}, which is not among integration_settings`)];
    }),
  );
}

/** Returns every text of a description with its path, in the names of the file. */
function* textsIn(value: unknown, path: readonly string[]): Generator<readonly [path: string, text: string]> {
  if (typeof value === "string") {
    if (value.includes("${")) yield [path.join("."), value];
  } else if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* textsIn(item, [...path, String(i)]);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value))
      if (!key.startsWith("$")) yield* textsIn(item, [...path, fieldName(key)]);
  }
}

const fieldName = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function checkProxyFields(provider: Provider): Mistake[] {
  const { proxy } = provider;
  const filled = (fields: Readonly<Record<string, string>> | undefined) =>
    Object.entries(fields ?? {}).filter(([, value]) => value.includes("${"));
  const own = credentialHeader(provider);
  return [
    ...filled(proxy?.headers).flatMap(([name, value]) => [
      ...checkHeader(name, `proxy.headers.${name}`),
      ...(name.toLowerCase() === own ? [mistake(`proxy.headers.${name}`, "is the header of the credentials")] : []),
      ...checkNames(value, `proxy.headers.${name}`, provider),
    ]),
    ...filled(proxy?.query).flatMap(([name, value]) => checkNames(value, `proxy.query.${name}`, provider)),
  ];
}

/** The header that carries the credentials. */
function credentialHeader({ auth }: Provider): string {
  const rules = auth.case === "apiKey" ? auth.value : undefined;
  const placement = auth.value !== undefined && "placement" in auth.value ? auth.value.placement : undefined;
  return (rules ?? placement)?.header || "authorization";
}

/** Checks that a text has only placeholders with values of the connection, by a described field, or the integration. */
export function checkNames(text: string, path: string, { connectionFields }: Provider): Mistake[] {
  if (text.replaceAll(placeholders, "").includes("${")) return [mistake(path, "has ${ without }")];
  return placeholdersIn(text).flatMap((placeholder) => {
    const [from, name = ""] = placeholder.split(/\.(.*)/s);
    if (from === "integration") return [];
    if (from !== "connectionConfig")
      return [mistake(path, "may contain only ${connectionConfig.NAME} and ${integration.NAME}")];
    return connectionFields.some((field) => field.name === name)
      ? []
      : [mistake(path, `uses connectionConfig.${name}, which is not among connection_fields`)];
  });
}

/** Checks the additional headers of a request. */
export const checkRequestHeaders = ({ headers }: Pick<RequestTemplate, "headers">, path: string): Mistake[] =>
  Object.keys(headers).flatMap((name) => checkHeader(name, `${path}.headers.${name}`));

/** Headers of the connection, of Latchkey, of credentials, and those that could name another host or user. */
const reserved = new Set([
  ...["authorization", "proxy-authorization", "cookie", "set-cookie", "host", "content-length", "transfer-encoding"],
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect", "via", "forwarded"],
  ...["x-real-ip", "x-original-url", "x-rewrite-url", "x-http-method-override", "range", "if-range"],
  ...["provider-config-key", "connection-id", "base-url-override", "retries", "retry-on", "traceparent"],
]);

function checkHeader(name: string, path: string): Mistake[] {
  const lower = name.toLowerCase();
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name)) return [mistake(path, "must be a header name")];
  const plain = lower.replaceAll("_", "-");
  return reserved.has(plain) || /^(?:latchkey-|nango-|x-forwarded-)/.test(plain)
    ? [mistake(path, "is a header that a description cannot fill")]
    : [];
}
