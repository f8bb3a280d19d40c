import { byFieldName } from "../../base/http/field-name.ts";

/** Response headers that, like cookies, could affect the caller's host or other applications on it: dropped. */
const dropped = new Set(["strict-transport-security", "alt-svc", "clear-site-data"]);
/** A provider's headers with this prefix could be mistaken for ours. */
const ours = "latchkey-";
/** Fields that hold URLs for the client to follow. */
const leading = ["location", "content-location", "link", "refresh"];
type FieldFate = "dropped" | "set-cookie" | "vary" | "reference" | "link" | "refresh" | "kept";

const fateOf = byFieldName((lower): FieldFate => {
  if (lower === "set-cookie" || lower === "vary" || lower === "link" || lower === "refresh") return lower;
  if (leading.includes(lower)) return "reference";
  return dropped.has(lower) || lower.startsWith(ours) ? "dropped" : "kept";
});

/** A cache that uses only the URL as its key must not serve one user's response to another. */
const varies =
  "Authorization, Proxy-Authorization, Latchkey-Key, Provider-Config-Key, Connection-Id, Base-Url-Override, Latchkey-Token";

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

type IncomingRules = Omit<Incoming, "fields">;

/** Returns the value to forward; undefined for a field that is dropped, or joined with ours. */
function forwardedValue(fate: FieldFate, value: string, { links, keepsSetCookie }: IncomingRules): string | undefined {
  if (fate === "kept" || (fate === "set-cookie" && keepsSetCookie)) return value;
  if (fate === "reference") return links.reference(value);
  if (fate === "link") return links.links(value);
  if (fate === "refresh") return links.refresh(value);
  return undefined;
}

const joinedVary = (value: string, vary: string): string => (value === "*" || vary === "*" ? "*" : `${value}, ${vary}`);

/** Returns the response fields for the caller. */
export function incomingFields({ fields, ...rules }: Incoming): string[] {
  const kept: string[] = [];
  let vary = varies;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    const fate = fateOf(name);
    if (fate === "vary") vary = joinedVary(value, vary);
    const forwarded = forwardedValue(fate, value, rules);
    if (forwarded !== undefined) kept.push(name, forwarded);
  }
  kept.push("Vary", vary, "Via", rules.isHttp2 ? "2 latchkey" : "1.1 latchkey", ...(rules.state ?? []));
  return kept;
}

interface IncomingLines extends IncomingRules {
  /** Header lines without those of `notable`. */
  readonly lines: string;
  readonly notable: readonly string[];
  /** The position in `lines` of each header in `notable`. */
  readonly notableAt: readonly number[];
}

/** Returns the header lines for the caller: unchanged lines are copied, and every header keeps its position. */
export function incomingLines({ lines, notable, notableAt, ...rules }: IncomingLines): string {
  let made = "";
  let from = 0;
  let vary = varies;
  for (const [i, at] of notableAt.entries()) {
    const name = notable[2 * i] ?? "";
    const value = notable[2 * i + 1] ?? "";
    const fate = fateOf(name);
    if (fate === "vary") vary = joinedVary(value, vary);
    const forwarded = forwardedValue(fate, value, rules);
    if (forwarded === undefined) continue;
    made += `${lines.slice(from, at)}${name}: ${forwarded}\r\n`;
    from = at;
  }
  made += `${lines.slice(from)}Vary: ${vary}\r\nVia: ${rules.isHttp2 ? "2 latchkey" : "1.1 latchkey"}\r\n`;
  const { state = [] } = rules;
  for (let i = 0; i < state.length; i += 2) made += `${state[i]}: ${state[i + 1]}\r\n`;
  return made;
}

/**
 * Returns the trailers to forward, as name, value, name, value. Drops those with URLs to follow, and those that look
 * like ours.
 */
export const incomingTrailers = (trailers: readonly string[]): readonly string[] =>
  trailers.filter((_, i) => fateOf(trailers[i - (i % 2)] ?? "") === "kept");
