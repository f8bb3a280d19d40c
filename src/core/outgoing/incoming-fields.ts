import { byFieldName } from "../../base/http/field-name.ts";

/** Response headers that, like cookies, could affect the caller's host or other applications on it: dropped. */
const dropped = new Set(["strict-transport-security", "alt-svc", "clear-site-data"]);
/** A provider's headers with this prefix could be mistaken for ours. */
const ours = "latchkey-";
/** Fields that hold URLs for the client to follow. */
const leading = ["location", "content-location", "link", "refresh"];
const fateOf = byFieldName((lower): "dropped" | "set-cookie" | "vary" | "reference" | "link" | "refresh" | "kept" => {
  if (lower === "set-cookie" || lower === "vary" || lower === "link" || lower === "refresh") return lower;
  if (leading.includes(lower)) return "reference";
  return dropped.has(lower) || lower.startsWith(ours) ? "dropped" : "kept";
});

/** A cache that uses only the URL as its key must not serve one user's response to another. */
const varies =
  "Authorization, Proxy-Authorization, Latchkey-Key, Provider-Config-Key, Connection-Id, Base-Url-Override";

/** Rewrites URLs in the provider's fields: those of the provider's own address then lead through this proxy. */
export interface LinkRewriter {
  /** Rewrites a URI reference, as in `Location` and `Content-Location`. */
  reference(reference: string): string;
  /** Rewrites the value of a `Link` field. */
  links(value: string): string;
  /** Rewrites the value of a `Refresh` field. */
  refresh(value: string): string;
}

interface Incoming {
  /**
   * Name, value, name, value: end-to-end fields as the provider sent them; either all fields, or only the notable ones.
   */
  readonly fields: readonly string[];
  readonly links: LinkRewriter;
  /** Name, value, name, value: fields about the state of the connection. */
  readonly state?: readonly string[];
  /** The response came over HTTP/2. */
  readonly isHttp2?: boolean | undefined;
  /** The integration wants the provider's `Set-Cookie`. */
  readonly keepsSetCookie: boolean;
}

/** Fields that need a rule; all others are forwarded unchanged. */
export const inspectedFields = { names: [...dropped, "set-cookie", "vary", ...leading], prefix: ours };

/** Returns the response fields for the caller. */
export function incomingFields({ fields, links, state = [], isHttp2 = false, keepsSetCookie }: Incoming): string[] {
  const kept: string[] = [];
  let vary = varies;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    const fate = fateOf(name);
    if (fate === "kept" || (fate === "set-cookie" && keepsSetCookie)) kept.push(name, value);
    else if (fate === "vary") vary = value === "*" || vary === "*" ? "*" : `${value}, ${vary}`;
    else if (fate === "reference") kept.push(name, links.reference(value));
    else if (fate === "link") kept.push(name, links.links(value));
    else if (fate === "refresh") kept.push(name, links.refresh(value));
  }
  kept.push("Vary", vary, "Via", isHttp2 ? "2 latchkey" : "1.1 latchkey", ...state);
  return kept;
}

/**
 * Returns the trailers to forward, as name, value, name, value. Drops those with URLs to follow, and those that look
 * like ours.
 */
export const incomingTrailers = (trailers: readonly string[]): readonly string[] =>
  trailers.filter((_, i) => fateOf(trailers[i - (i % 2)] ?? "") === "kept");
