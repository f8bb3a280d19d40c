import { Fault } from "../../base/fault.ts";
import type { SessionProof } from "../../broker/sign-in/known-browsers.ts";

/** Header with the second secret of a session: a page keeps it, and no other port of the host is sent it. */
export const sessionHeader = "latchkey-session";
const environmentHeader = "latchkey-environment";

/** Over TLS, the name with `__Host-`: no other host of the domain can set such a cookie. */
export const cookieNames = { plain: "latchkey-session", secure: "__Host-latchkey-session" } as const;

/** Whether a call claims a browser session, rather than a key. */
export const claimsSession = (header: Headers): boolean =>
  header.has(sessionHeader) || cookieIn(header.get("cookie") ?? "", header) !== undefined;

/**
 * Returns what a call proves its session by. The cookie alone proves nothing: browsers send it to every port of this
 * host, and with requests that other pages make.
 */
export function sessionProofOf(header: Headers): SessionProof {
  requireOwnPage(header);
  const cookie = cookieIn(header.get("cookie") ?? "", header);
  const secret = header.get(sessionHeader);
  if (cookie === undefined || secret === null || !secretForm.test(secret)) {
    const lacking = cookie === undefined ? "cookie" : `header ${sessionHeader}`;
    throw new Fault("signed_out", `the call has no valid ${lacking} of a browser session; sign in again`);
  }
  return { cookie, secret, environment: header.get(environmentHeader) ?? undefined };
}

/**
 * Requires the call to come from a page of this origin. The listener has refused other origins where the browser named
 * one; here it must prove its own.
 */
export function requireOwnPage(header: Headers): void {
  const site = header.get("sec-fetch-site");
  // Browsers leave out the site towards a host that is neither local nor reached over TLS, and then send the origin.
  if (site === "same-origin" || (site === null && header.has("origin"))) return;
  throw new Fault("origin_not_allowed", "a browser session is accepted only from the dashboard's own pages");
}

const secretForm = /^[A-Za-z0-9_-]{43}$/;

/** Returns the value of the session's cookie; undefined if there is none, or more than one, of which one is foreign. */
function cookieIn(cookies: string, header: Headers): string | undefined {
  const pairs = cookies.split(";").map((pair) => pair.trim());
  const valuesOf = (name: string) =>
    pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1));
  const isSecure = header.get("origin")?.startsWith("https:") === true;
  const secure = valuesOf(cookieNames.secure);
  const found = isSecure || secure.length > 0 ? secure : valuesOf(cookieNames.plain);
  return found.length === 1 ? found[0] : undefined;
}
