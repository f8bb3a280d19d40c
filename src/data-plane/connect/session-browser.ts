import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { digestOf } from "../../base/ids.ts";
import { isSame } from "../../broker/connect/authorize/callback.ts";
import { type ConnectSessions, otherBrowser, type StoredSession } from "../../broker/connect/sessions.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import { navigationOf } from "./navigation.ts";

/** The browser of a request, and the session that the browser may use. */
export interface SessionBrowser {
  readonly session: StoredSession;
  readonly secret: string;
  readonly setCookie: string;
}

/** Binds each connect session to the browser that uses it first. */
export interface SessionBrowsers {
  /** Handles a page that is only shown. Throws `other_browser`. */
  show(session: StoredSession, headers: IncomingHttpHeaders): Promise<SessionBrowser>;
  /** Handles a request that does something with the session. Throws `other_browser`. */
  act(session: StoredSession, headers: IncomingHttpHeaders): Promise<SessionBrowser>;
  /** Like `act`, but `bind` binds the session, once the request has succeeded. Throws `other_browser`. */
  begin(session: StoredSession, headers: IncomingHttpHeaders): StartingBrowser;
}

/** A browser that may use the session, but to which the session is not bound yet. */
interface StartingBrowser extends SessionBrowser {
  /** Throws `other_browser`. */
  bind(): Promise<StoredSession>;
}

interface SessionBrowsersOptions {
  readonly sessions: Pick<ConnectSessions, "bind">;
  readonly cookies: BrowserCookies;
}

export function createSessionBrowsers({ sessions, cookies }: SessionBrowsersOptions): SessionBrowsers {
  function begin(session: StoredSession, headers: IncomingHttpHeaders): StartingBrowser {
    const { isBrowser } = navigationOf(headers);
    const browser = cookies.renew(headers);
    const unbound = { session, ...browser, bind: async () => session };
    if (headers["sec-fetch-dest"] === "iframe") return unbound;
    const { browserHash } = session.value;
    // A program keeps no cookie that would identify the program. Programs may use the session until a browser is
    // bound to it.
    const isBound = isBrowser || cookies.read(headers) !== undefined;
    if (browserHash !== "" && !(isBound && browserHash === digestOf(browser.secret))) throw otherBrowser();
    return isBound ? { ...unbound, bind: () => sessions.bind(session, browser.secret) } : unbound;
  }

  return {
    async show(session, headers) {
      const { isTopLevel, isPrefetch } = navigationOf(headers);
      const browser = cookies.renew(headers);
      // In another site's frame a browser keeps no cookie of ours, and a prefetched page was shown to no person.
      if (!isTopLevel || isPrefetch) return { session, ...browser };
      return { session: await sessions.bind(session, browser.secret), ...browser };
    },
    async act(stored, headers) {
      const { bind, ...browser } = begin(stored, headers);
      return { ...browser, session: await bind() };
    },
    begin,
  };
}

interface Confirmed {
  readonly secret: string;
  readonly token: string;
  readonly integration: string;
}

/**
 * Proves that our page was shown in this browser, with this session and integration. No other site can make a
 * confirmation.
 */
export const confirmationOf = ({ secret, token, integration }: Confirmed): string =>
  createHmac("sha256", secret).update(`${token} ${integration}`).digest("base64url");

export const isConfirmation = (text: string, { secret, ...rest }: Partial<Confirmed>): boolean =>
  secret !== undefined &&
  text !== "" &&
  isSame(text, confirmationOf({ secret, token: rest.token ?? "", integration: rest.integration ?? "" }));
