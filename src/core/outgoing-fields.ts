import { lowerCase } from "../base/field-name.ts";

/** The fields of a request on its way to a provider: what the caller sent, without what is ours or the connection's. */
export interface OutgoingFields {
  /** Name, value, name, value. */
  readonly pairs: readonly string[];
  /** Announced by the caller: how its body is framed. */
  readonly contentLength: string | undefined;
}

/** RFC 9110, 7.6.1, and what belongs to the connection between the caller and us. */
const hopByHop = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authorization",
  "proxy-authenticate",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
  "host",
  "http2-settings",
];
/** Ours to read, and nobody else's. */
const own = [
  "authorization",
  "provider-config-key",
  "connection-id",
  "base-url-override",
  "retries",
  "retry-on",
  "decompress",
  "forward-headers-on-redirect",
  "nango-activity-log-id",
  "nango-is-sync",
  "nango-is-script",
  "nango-is-dry-run",
];
/** What would tell a provider of the caller's network, or of another user's session. */
const revealing = ["cookie", "forwarded", "x-real-ip"];
const dropped = new Set([...hopByHop, ...own, ...revealing, "content-length"]);
/** A caller's field in disguise: it loses the prefix, takes the place of its plain twin, and is judged like any other. */
const disguise = "nango-proxy-";

/**
 * `replaced` are the names, in lower case, that the credentials bring themselves. An underscore is judged as the hyphen
 * that it becomes behind CGI and whatever copies it (RFC 3875, 4.1.18).
 */
export function outgoingFields(rawHeaders: readonly string[], replaced: ReadonlySet<string>): OutgoingFields {
  const nominated = nominatedIn(rawHeaders);
  const disguised = disguisedIn(rawHeaders, nominated);
  const pairs: string[] = [];
  let contentLength: string | undefined;
  const add = (name: string, lower: string, value: string) => {
    const plain = lower.includes("_") ? lower.replaceAll("_", "-") : lower;
    if (isDropped(plain) || replaced.has(plain) || replaced.has(lower) || nominated?.has(lower) === true) return;
    pairs.push(name, value);
  };
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const lower = lowerCase(name);
    const value = rawHeaders[i + 1] ?? "";
    if (lower === "content-length") contentLength = value;
    if (!lower.startsWith(disguise) && disguised?.has(lower) !== true) add(name, lower, value);
  }
  for (const [lower, { name, value }] of disguised ?? []) add(name, lower, value);
  return { pairs, contentLength };
}

/** By their plain names; of several of one name, the last counts. */
function disguisedIn(
  rawHeaders: readonly string[],
  nominated: ReadonlySet<string> | undefined,
): ReadonlyMap<string, { name: string; value: string }> | undefined {
  let found: Map<string, { name: string; value: string }> | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const lower = lowerCase(name);
    if (!lower.startsWith(disguise) || lower.length === disguise.length || nominated?.has(lower) === true) continue;
    found ??= new Map();
    found.set(lower.slice(disguise.length), { name: name.slice(disguise.length), value: rawHeaders[i + 1] ?? "" });
  }
  return found;
}

const isDropped = (lower: string): boolean =>
  dropped.has(lower) || lower.startsWith("latchkey-") || lower.startsWith("x-forwarded-");

/** What the caller says is for us alone; it cannot name what must go on. */
function nominatedIn(rawHeaders: readonly string[]): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (lowerCase(rawHeaders[i] ?? "") !== "connection") continue;
    const value = (rawHeaders[i + 1] ?? "").toLowerCase();
    if (value === "keep-alive" || value === "close") continue;
    names ??= new Set();
    for (const name of value.split(",")) names.add(name.trim());
  }
  return names;
}
