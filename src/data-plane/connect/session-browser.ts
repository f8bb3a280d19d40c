import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
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
}

interface SessionBrowsersOptions {
  readonly sessions: Pick<ConnectSessions, "bind">;
  readonly cookies: BrowserCookies;
}

export function createSessionBrowsers({ sessions, cookies }: SessionBrowsersOptions): SessionBrowsers {
  return {
    async show(session, headers) {
      const { isTopLevel, isPrefetch } = navigationOf(headers);
      const browser = cookies.renew(headers);
      // In another site's frame a browser keeps no cookie of ours, and a prefetched page was shown to no person.
      if (!isTopLevel || isPrefetch) return { session, ...browser };
      return { session: await sessions.bind(session, browser.secret), ...browser };
    },
    async act(session, headers) {
      const { isBrowser } = navigationOf(headers);
      const browser = cookies.renew(headers);
      if (headers["sec-fetch-dest"] === "iframe") return { session, ...browser };
      // A program keeps no cookie that would identify the program. Programs may use the session until a browser is
      // bound to it.
      if (isBrowser || cookies.read(headers) !== undefined) {
        return { session: await sessions.bind(session, browser.secret), ...browser };
      }
      if (session.value.browserHash !== "") throw otherBrowser();
      return { session, ...browser };
    },
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
