import type { Mistake } from "../base/fault.ts";
import type { ConnectionField } from "../gen/latchkey/v1/provider_pb.ts";
import { mistake } from "./mistake.ts";
import { placeholder, urlTemplate } from "./url-template.ts";

interface CheckedUrl {
  readonly url: string;
  readonly path: string;
  readonly fields: readonly ConnectionField[];
  /** Paths are appended to this URL. */
  readonly isBase?: boolean;
  readonly mayNameCredentials?: boolean;
  /** No credential is sent to the URL: on the local machine it may be http (RFC 8252, section 8.3). */
  readonly isForBrowsers?: boolean;
}

const onThisMachine = /^http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d{1,5})?(?:[/?]|$)/;

/** Placeholders must be whole labels in a host and whole segments in a path: a value then cannot reach beyond. */
const inHost = /(?<=^|\.)\$\{connectionConfig\.\w+\}(?=\.|:|$)/g;
const inPath = /(?<=\/)\$\{(?:connectionConfig|credentials)\.\w+\}(?=\/|$)/g;

/** Checks a URL that secrets or end users are sent to; an empty one is absent. */
export function checkUrl(checked: CheckedUrl): Mistake[] {
  const { url, path, fields, isBase = false, mayNameCredentials = false, isForBrowsers = false } = checked;
  if (url === "") return [];
  // With a letter for each placeholder, the text must be an ordinary URL.
  const filled = url.replaceAll(placeholder, "a");
  if (!URL.canParse(filled)) return [mistake(path, "must be a URL")];
  const { protocol, search, hash, username, password } = new URL(filled);
  if (protocol !== "https:" && !(isForBrowsers && onThisMachine.test(url))) {
    return [mistake(path, isForBrowsers ? "must be https, or http on this machine" : "must be https")];
  }
  if ((isBase ? search : "") + hash + username + password !== "") {
    return [mistake(path, isBase ? "must have only a host and a path" : "must have only a host, a path and a query")];
  }
  if (filled.includes("${")) return [mistake(path, "may contain only ${connectionConfig.NAME}")];
  const { host = "", path: ofPath = "", rest = "" } = urlTemplate(url) ?? {};
  const isWhole = ![host.replaceAll(inHost, ""), ofPath.replaceAll(inPath, ""), rest].join(" ").includes("${");
  if (!isWhole) return [mistake(path, "may contain ${…} only as a whole host label or a whole path segment")];
  return [
    ...placesIn(host).flatMap(([, name]) => checkPlace({ name, path, fields, knowsSuffixes: true })),
    ...placesIn(ofPath).flatMap(([from, name]) => {
      if (from === "connectionConfig") return checkPlace({ name, path, fields, knowsSuffixes: false });
      return mayNameCredentials ? [] : [mistake(path, "must not name credentials")];
    }),
  ];
}

const placesIn = (text: string) =>
  [...text.matchAll(placeholder)].map(([, from = "", name = ""]) => [from, name] as const);

interface UrlField {
  readonly name: string;
  readonly path: string;
  readonly fields: readonly ConnectionField[];
  readonly knowsSuffixes: boolean;
}

function checkPlace({ name, path, fields, knowsSuffixes }: UrlField): Mistake[] {
  const field = fields.find((one) => one.name === name);
  const isRestricted = field !== undefined && (field.pattern !== "" || (knowsSuffixes && field.suffixes.length > 0));
  return isRestricted
    ? []
    : [mistake(path, `uses connectionConfig.${name}, which needs a connection field with a pattern`)];
}

export function checkOrigin(origin: string, path: string): Mistake[] {
  const valid = URL.canParse(origin) && new URL(origin).origin === origin && origin.startsWith("https://");
  return valid ? [] : [mistake(path, "must be https://host or https://host:port")];
}

export const checkPrefix = (prefix: string, path: string): Mistake[] =>
  prefix === "" || prefix.startsWith("/") ? [] : [mistake(path, "must begin with a slash")];
