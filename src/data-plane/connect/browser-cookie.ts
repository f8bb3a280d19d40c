import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { sessionLifetimeMs } from "../../broker/connect/sessions.ts";

/** The secret cookie that identifies a returning browser. */
export interface BrowserCookies {
  /** Returns the browser's secret; undefined: no valid cookie. */
  read(headers: IncomingHttpHeaders): string | undefined;
  /** Returns a new secret, or the same again: several tabs may authorize at the same time. */
  renew(headers: IncomingHttpHeaders): { readonly secret: string; readonly setCookie: string };
}

/** The lifetime of a connect session, which the cookie binds to the browser. */
const maxAgeSeconds = sessionLifetimeMs / 1_000;

/**
 * `__Host-`: sent back only over TLS and only to this host, and set by no other host, so that no sibling site can
 * plant one. Lax: providers send their users back from another site. On one machine without TLS neither is available.
 */
export function createBrowserCookies(publicUrl: () => string): BrowserCookies {
  const isSecure = () => publicUrl().startsWith("https:");
  const nameOf = () => (isSecure() ? "__Host-latchkey-browser" : "latchkey-browser");

  function read({ cookie = "" }: IncomingHttpHeaders): string | undefined {
    const found = cookie
      .split(";")
      .map((pair) => pair.trim())
      .filter((pair) => pair.startsWith(`${nameOf()}=`));
    const [value] = found.map((pair) => pair.slice(nameOf().length + 1));
    // Two cookies of one name: one of them is foreign.
    return found.length === 1 && value !== undefined && /^[A-Za-z0-9_-]{43}$/.test(value) ? value : undefined;
  }

  return {
    read,
    renew(headers) {
      const secret = read(headers) ?? randomBytes(32).toString("base64url");
      const rest = `Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${isSecure() ? "; Secure" : ""}`;
      return { secret, setCookie: `${nameOf()}=${secret}; ${rest}` };
    },
  };
}
