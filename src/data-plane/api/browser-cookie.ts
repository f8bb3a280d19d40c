import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { sessionLifetimeMs } from "../../broker/connect/sessions.ts";

/** The secret by which a browser that comes back is known to be the one that left. */
export interface BrowserCookies {
  /** What the browser has; undefined: nothing of ours. */
  read(headers: IncomingHttpHeaders): string | undefined;
  /** Another one, or the same again: several authorizations may be under way in as many tabs. */
  renew(headers: IncomingHttpHeaders): { readonly secret: string; readonly setCookie: string };
}

/** As long as a connect session lasts, which is bound to the browser by it. */
const maxAgeSeconds = sessionLifetimeMs / 1_000;

/**
 * `__Host-`: sent back over TLS, to this host alone, and set by no other, so that no neighbouring site can plant one.
 * Lax: providers send their users back from another site. Where all is in the open, on one machine, neither works.
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
    // Two of one name: one of them is not ours.
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
