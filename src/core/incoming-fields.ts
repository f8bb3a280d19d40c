import { byFieldName } from "../base/field-name.ts";

/** What a provider would do to the caller's host, or to whoever shares it, with these, and with cookies: nothing. */
const dropped = new Set(["strict-transport-security", "alt-svc", "clear-site-data"]);
/** What begins like ours could be taken for ours. */
const ours = "latchkey-";
const fateOf = byFieldName((lower): "dropped" | "set-cookie" | "vary" | "location" | "kept" => {
  if (lower === "set-cookie" || lower === "vary" || lower === "location") return lower;
  return dropped.has(lower) || lower.startsWith(ours) ? "dropped" : "kept";
});

/** A cache that knows the address alone must not give one user's answer to another. */
const varies =
  "Authorization, Proxy-Authorization, Latchkey-Key, Provider-Config-Key, Connection-Id, Base-Url-Override";

interface Incoming {
  /** Name, value, name, value: end-to-end fields as the provider sent them; all of them, or those that are notable. */
  readonly fields: readonly string[];
  /** Where a redirect of the provider's leads on this door; undefined: as it is. */
  readonly relocate: (location: string) => string | undefined;
  /** It came over HTTP/2. */
  readonly isHttp2?: boolean | undefined;
  /** The integration wants its `Set-Cookie`. */
  readonly keepsSetCookie: boolean;
}

/** Those that there is a rule for: all others go on as they came. */
export const notableFields = { names: [...dropped, "set-cookie", "vary", "location"], prefix: ours };

/** The fields of an answer on its way to the caller. */
export function incomingFields({ fields, relocate, isHttp2 = false, keepsSetCookie }: Incoming): string[] {
  const kept: string[] = [];
  let vary = varies;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    const fate = fateOf(name);
    if (fate === "kept" || (fate === "set-cookie" && keepsSetCookie)) kept.push(name, value);
    else if (fate === "vary") vary = value === "*" || vary === "*" ? "*" : `${value}, ${vary}`;
    else if (fate === "location") kept.push(name, relocate(value) ?? value);
  }
  kept.push("Vary", vary, "Via", isHttp2 ? "2 latchkey" : "1.1 latchkey");
  return kept;
}
