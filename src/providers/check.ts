import type { Mistake } from "../base/fault.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

/** A part of a host that comes from a connection, such as `${connectionConfig.subdomain}`. */
const template = /\$\{connectionConfig\.([A-Za-z][A-Za-z0-9_]*)\}/g;

const mistake = (path: string, message: string): Mistake => ({ path: path.split("."), message });

/** What a provider's description must be beyond its schema, so that a credential cannot be led astray by it. */
export function checkProvider(provider: Provider): Mistake[] {
  const { auth, proxy, connectionFields } = provider;
  return [
    ...(auth.case === undefined ? [mistake("auth", "names no kind of credentials that latchkey knows")] : []),
    ...checkBaseUrl(provider),
    ...(proxy?.hosts ?? []).flatMap(({ origin }, i) => checkOrigin(origin, `proxy.hosts.${i}.origin`)),
    ...connectionFields.flatMap(({ pattern }, i) => checkPattern(pattern, `connection_fields.${i}.pattern`)),
    ...tokenUrls(provider).flatMap(([path, url]) => checkEndpoint(url, path)),
    ...checkAuthorizationUrl(provider),
  ];
}

function checkBaseUrl({ proxy, connectionFields }: Provider): Mistake[] {
  const path = "proxy.base_url";
  const baseUrl = proxy?.baseUrl ?? "";
  if (baseUrl === "") return [];
  const names = [...baseUrl.matchAll(template)].map(([, name]) => name ?? "");
  // A letter in each place: what is left must be an ordinary URL.
  const filled = baseUrl.replaceAll(template, "a");
  if (!URL.canParse(filled)) return [mistake(path, "must be a URL")];
  const { protocol, search, hash, username, password } = new URL(filled);
  if (protocol !== "https:") return [mistake(path, "must be https")];
  if (search + hash + username + password !== "") return [mistake(path, "must be no more than host and path")];
  if (filled.includes("${")) return [mistake(path, "may only hold ${connectionConfig.NAME}")];
  return names.flatMap((name) => {
    const field = connectionFields.find((one) => one.name === name);
    return field === undefined || (field.pattern === "" && field.suffixes.length === 0)
      ? [mistake(path, `uses connectionConfig.${name}, which no connection field describes by a pattern`)]
      : [];
  });
}

function checkOrigin(origin: string, path: string): Mistake[] {
  const valid = URL.canParse(origin) && new URL(origin).origin === origin && origin.startsWith("https://");
  return valid ? [] : [mistake(path, "must be https://host or https://host:port")];
}

function checkEndpoint(url: string, path: string): Mistake[] {
  if (url === "") return [];
  const filled = url.replaceAll(template, "a");
  return URL.canParse(filled) && new URL(filled).protocol === "https:" ? [] : [mistake(path, "must be an https URL")];
}

/** Where a browser goes. No credential travels there, so that on this machine (RFC 8252, section 8.3) it may be http. */
function checkAuthorizationUrl({ auth }: Provider): Mistake[] {
  const url = auth.value !== undefined && "authorizationUrl" in auth.value ? auth.value.authorizationUrl : "";
  const path = "auth.authorization_url";
  const isHere = /^http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d{1,5})?(?:[/?]|$)/.test(url) && URL.canParse(url);
  return isHere
    ? []
    : checkEndpoint(url, path).map(() => mistake(path, "must be an https URL, or http on this machine"));
}

function checkPattern(pattern: string, path: string): Mistake[] {
  try {
    new RegExp(pattern, "u");
    return [];
  } catch {
    // What is wrong with it is for its writer to find; that it is wrong is all that matters here.
    return [mistake(path, "must be a regular expression")];
  }
}

function tokenUrls({ auth }: Provider): [string, string][] {
  switch (auth.case) {
    case "oauth2":
    case "oauth2Client":
      return [
        ["auth.token_url", auth.value.tokenUrl],
        ["auth.refresh_url", auth.value.refreshUrl],
        ["auth.revocation_url", auth.value.revocationUrl],
      ];
    case "oauth1":
    case "tba":
      return [
        ["auth.request_token_url", auth.value.requestTokenUrl],
        ["auth.access_token_url", auth.value.accessTokenUrl],
      ];
    case "app":
    case "jwt":
    case "twoStep":
    case "signature":
      return [["auth.token_url", auth.value.tokenUrl]];
    default:
      return [];
  }
}
