import { browserSessionLifetimeMs } from "../../broker/sign-in/known-browsers.ts";
import { cookieNames } from "../server/session-proof.ts";
import type { BrowserRequest } from "./request.ts";

/** Cookies of the dashboard, as `Set-Cookie` headers. */
export interface SignInCookies {
  session(request: BrowserRequest, value: string): string;
  forgetSession(request: BrowserRequest): string;
  /** Binds a sign-in at an identity provider to the browser that began it. */
  browser(request: BrowserRequest, value: string): string;
  forgetBrowser(request: BrowserRequest): string;
}

const browserNames = { plain: "latchkey-sign-in", secure: "__Host-latchkey-sign-in" } as const;
const browserMaxAgeSeconds = 600;

/** With TLS, at this listener or at a load balancer in front of it, cookies are `Secure` and bound to this host. */
export function createSignInCookies(isTls: boolean): SignInCookies {
  const isSecure = ({ headers }: BrowserRequest) => isTls || headers.get("origin")?.startsWith("https:") === true;
  function cookie(request: BrowserRequest, names: typeof cookieNames | typeof browserNames, rest: string): string {
    const secure = isSecure(request);
    return `${secure ? names.secure : names.plain}=${rest}; Path=/; HttpOnly${secure ? "; Secure" : ""}`;
  }
  return {
    session: (request, value) =>
      cookie(request, cookieNames, `${value}; SameSite=Strict; Max-Age=${browserSessionLifetimeMs / 1_000}`),
    forgetSession: (request) => cookie(request, cookieNames, "; SameSite=Strict; Max-Age=0"),
    // Lax: the identity provider sends the browser back from another site.
    browser: (request, value) =>
      cookie(request, browserNames, `${value}; SameSite=Lax; Max-Age=${browserMaxAgeSeconds}`),
    forgetBrowser: (request) => cookie(request, browserNames, "; SameSite=Lax; Max-Age=0"),
  };
}

/** Returns the secret of the browser that began a sign-in; undefined if it has none. */
export function browserSecretOf(headers: Headers): string | undefined {
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim());
  const valuesOf = (name: string) =>
    pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1));
  const secure = valuesOf(browserNames.secure);
  const found = secure.length > 0 ? secure : valuesOf(browserNames.plain);
  return found.length === 1 && /^[A-Za-z0-9_-]{43}$/.test(found[0] ?? "") ? found[0] : undefined;
}
