import { lowerCase } from "../base/field-name.ts";

/** What a provider would do to the caller's host, or to whoever shares it, with these: nothing. */
const dropped = new Set(["set-cookie", "strict-transport-security", "alt-svc", "clear-site-data"]);
/** A cache that knows the address alone must not give one user's answer to another. */
const varies =
  "Authorization, Proxy-Authorization, Latchkey-Key, Provider-Config-Key, Connection-Id, Base-Url-Override";

interface Incoming {
  /** Name, value, name, value: end-to-end fields as the provider sent them. */
  readonly fields: readonly string[];
  /** Where a redirect of the provider's leads on this door; undefined: as it is. */
  readonly relocate: (location: string) => string | undefined;
  /** It came over HTTP/2. */
  readonly isHttp2?: boolean | undefined;
  /** The integration wants its `Set-Cookie`. */
  readonly keepsSetCookie: boolean;
}

/** The fields of an answer on its way to the caller. */
export function incomingFields({ fields, relocate, isHttp2 = false, keepsSetCookie }: Incoming): string[] {
  const kept: string[] = [];
  let vary = varies;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    const lower = lowerCase(name);
    // What begins like ours could be taken for ours.
    if (lower.startsWith("latchkey-") || (dropped.has(lower) && !(keepsSetCookie && lower === "set-cookie"))) continue;
    if (lower === "vary") vary = value === "*" || vary === "*" ? "*" : `${value}, ${vary}`;
    else if (lower === "location") kept.push(name, relocate(value) ?? value);
    else kept.push(name, value);
  }
  kept.push("Vary", vary, "Via", isHttp2 ? "2 latchkey" : "1.1 latchkey");
  return kept;
}
