import { byFieldName, lowerCase } from "../../base/http/field-name.ts";

/**
 * Request fields for the provider: the caller's fields without Latchkey's own and the connection's (hop-by-hop) ones.
 */
export interface OutgoingFields {
  /** Name, value, name, value. */
  readonly pairs: string[];
  /** The Content-Length that the caller sent. */
  readonly contentLength: string | undefined;
}

/** Hop-by-hop fields (RFC 9110, 7.6.1), and others that concern only the connection between the caller and Latchkey. */
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
/** Fields for Latchkey alone. */
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
/** Fields that would reveal the caller's network, or another user's session, to a provider. */
const revealing = ["cookie", "forwarded", "x-real-ip"];
const dropped = new Set([...hopByHop, ...own, ...revealing, "content-length"]);
/**
 * Prefix of a disguised field: it loses the prefix, replaces the plain field of that name, and is filtered like any
 * other.
 */
const disguise = "nango-proxy-";

interface Name {
  readonly lower: string;
  /** The name with underscores as hyphens: CGI and its imitators turn both into the same name (RFC 3875, 4.1.18). */
  readonly plain: string;
  readonly isDropped: boolean;
  readonly isDisguised: boolean;
  /** The plain name of what is sent: a disguised field without its prefix. */
  readonly sent: string;
}

const nameOf = byFieldName((lower): Name => {
  const plain = lower.replaceAll("_", "-");
  return {
    lower,
    plain,
    isDropped: dropped.has(plain) || plain.startsWith("latchkey-") || plain.startsWith("x-forwarded-"),
    isDisguised: lower.startsWith(disguise),
    sent: lower.startsWith(disguise) ? plain.slice(disguise.length) : plain,
  };
});

/** Returns the name under which a field is sent, in lower case and with hyphens. */
export const plainFieldName = (written: string): string => nameOf(written).sent;

export interface WithheldFields {
  /** Names, in lower case, of fields that the credentials set themselves. */
  readonly replaced: ReadonlySet<string>;
  /** The caller's key is for Latchkey alone, even if the caller put it into another field. */
  readonly key: string | undefined;
}

export function outgoingFields(rawHeaders: readonly string[], { replaced, key }: WithheldFields): OutgoingFields {
  const { nominated, disguised } = specialIn(rawHeaders);
  const pairs: string[] = [];
  let contentLength: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const written = rawHeaders[i] ?? "";
    const name = nameOf(written);
    const value = rawHeaders[i + 1] ?? "";
    if (name.lower === "content-length") contentLength = value;
    if (name.isDisguised || disguised?.has(name.lower) === true) continue;
    if (isSentOn(name, value)) pairs.push(written, value);
  }
  for (const { written, value } of disguised?.values() ?? []) {
    if (isSentOn(nameOf(written), value)) pairs.push(written, value);
  }
  return { pairs, contentLength };

  function isSentOn({ lower, plain, isDropped }: Name, value: string): boolean {
    if (isDropped || replaced.has(plain) || replaced.has(lower) || nominated?.has(lower) === true) return false;
    return key === undefined || !value.includes(key);
  }
}

interface Special {
  /** Fields that the caller's Connection field names as hop-by-hop. */
  readonly nominated: ReadonlySet<string> | undefined;
  /** Disguised fields by plain name; if a name is repeated, the last one counts. */
  readonly disguised: ReadonlyMap<string, { readonly written: string; readonly value: string }> | undefined;
}

const nothing: Special = { nominated: undefined, disguised: undefined };

/** Most requests have no such fields. */
function specialIn(rawHeaders: readonly string[]): Special {
  let isSpecial = false;
  for (let i = 0; i < rawHeaders.length && !isSpecial; i += 2) {
    const { lower, isDisguised } = nameOf(rawHeaders[i] ?? "");
    isSpecial = isDisguised || (lower === "connection" && !saysNothing(rawHeaders[i + 1] ?? ""));
  }
  if (!isSpecial) return nothing;
  const nominated = nominatedIn(rawHeaders);
  return { nominated, disguised: disguisedIn(rawHeaders, nominated) };
}

const saysNothing = (value: string): boolean => /^(?:keep-alive|close)$/i.test(value);

function nominatedIn(rawHeaders: readonly string[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const value = rawHeaders[i + 1] ?? "";
    if (lowerCase(rawHeaders[i] ?? "") !== "connection" || saysNothing(value)) continue;
    for (const name of value.toLowerCase().split(",")) names.add(name.trim());
  }
  return names;
}

function disguisedIn(
  rawHeaders: readonly string[],
  nominated: ReadonlySet<string>,
): ReadonlyMap<string, { written: string; value: string }> {
  const found = new Map<string, { written: string; value: string }>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const { lower, isDisguised } = nameOf(name);
    if (!isDisguised || lower.length === disguise.length || nominated.has(lower)) continue;
    found.set(lower.slice(disguise.length), { written: name.slice(disguise.length), value: rawHeaders[i + 1] ?? "" });
  }
  return found;
}
