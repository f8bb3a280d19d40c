import { byFieldName } from "../../base/http/field-name.ts";

/** What a provider would do to the caller's host, or to whoever shares it, with these, and with cookies: nothing. */
const dropped = new Set(["strict-transport-security", "alt-svc", "clear-site-data"]);
/** What begins like ours could be taken for ours. */
const ours = "latchkey-";
/** Fields that lead a client somewhere. */
const leading = ["location", "content-location", "link", "refresh"];
const fateOf = byFieldName((lower): "dropped" | "set-cookie" | "vary" | "reference" | "link" | "refresh" | "kept" => {
  if (lower === "set-cookie" || lower === "vary" || lower === "link" || lower === "refresh") return lower;
  if (leading.includes(lower)) return "reference";
  return dropped.has(lower) || lower.startsWith(ours) ? "dropped" : "kept";
});

/** A cache that knows the address alone must not give one user's answer to another. */
const varies =
  "Authorization, Proxy-Authorization, Latchkey-Key, Provider-Config-Key, Connection-Id, Base-Url-Override";

/** Where fields of the provider's lead a client: to this door, where they name the provider's own address. */
export interface LinksBack {
  /** A URI reference, as `Location` and `Content-Location` have it. */
  reference(reference: string): string;
  /** The value of a `Link` field. */
  links(value: string): string;
  /** The value of a `Refresh` field. */
  refresh(value: string): string;
}

interface Incoming {
  /** Name, value, name, value: end-to-end fields as the provider sent them; all of them, or those that are notable. */
  readonly fields: readonly string[];
  readonly links: LinksBack;
  /** Name, value, name, value: what the answer says of the connection. */
  readonly state?: readonly string[];
  /** It came over HTTP/2. */
  readonly isHttp2?: boolean | undefined;
  /** The integration wants its `Set-Cookie`. */
  readonly keepsSetCookie: boolean;
}

/** Those that there is a rule for: all others go on as they came. */
export const notableFields = { names: [...dropped, "set-cookie", "vary", ...leading], prefix: ours };

/** The fields of an answer on its way to the caller. */
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

/** Name, value, name, value: what may follow an answer. Nothing that leads a client somewhere, and nothing like ours. */
export const incomingTrailers = (trailers: readonly string[]): readonly string[] =>
  trailers.filter((_, i) => fateOf(trailers[i - (i % 2)] ?? "") === "kept");
