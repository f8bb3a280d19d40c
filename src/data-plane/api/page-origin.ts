import type { IncomingHttpHeaders } from "node:http";
import { Fault } from "../../base/fault.ts";
import type { Route } from "../server/routes.ts";

/** Where pages that speak to us may come from. */
export interface PageOrigins {
  /** Of the environments' lists: any of them, since whose session it is stands in the request. */
  readonly isKnown: (origin: string) => boolean;
  /** The environments that there are, for whoever looks for the one that lacks an origin. */
  readonly environments: () => readonly string[];
  /** As browsers reach us. */
  readonly publicUrl: () => string;
}

interface BrowserRequestHead {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

const refused = () => new Fault("origin_not_allowed", "requests from that web page are not taken here");

/**
 * Judges a request that a page made a browser send, to a route that pages may use. Returns the origin that the answer
 * is to be shown to; undefined: to none but our own.
 */
export function checkBrowser(
  browser: NonNullable<Route["browser"]>,
  head: BrowserRequestHead,
  origins: PageOrigins,
): string | undefined {
  if (browser === "page") {
    checkNavigation(head, origins);
    return undefined;
  }
  const { origin } = head.headers;
  if (origin === undefined || isOwn(origin, head.headers, origins)) return undefined;
  if (!origins.isKnown(origin)) throw refused();
  return origin;
}

/** Somebody who follows a link from anywhere, or who sends a form of a page of ours. */
function checkNavigation({ method, headers }: BrowserRequestHead, origins: PageOrigins): void {
  const { origin } = headers;
  const fetchSite = headers["sec-fetch-site"];
  // Browsers say both; programs that say one of them are no browsers.
  if (fetchSite !== undefined && headers["sec-fetch-mode"] !== "navigate") throw refused();
  if (method === "GET" || method === "HEAD") {
    if (origin !== undefined) throw refused();
    return;
  }
  // A page that gives no referrer away gives no origin away either, and its form comes from `null`.
  const isOurs = origin === undefined || origin === "null" || isOwn(origin, headers, origins);
  if (!isOurs || (fetchSite !== undefined && fetchSite !== "same-origin")) throw refused();
}

/** That of the door's own pages. The host has been judged: no other site has it. */
export function isOwn(
  origin: string,
  { host }: IncomingHttpHeaders,
  { publicUrl }: Pick<PageOrigins, "publicUrl">,
): boolean {
  if (!URL.canParse(origin)) return false;
  const url = publicUrl();
  return new URL(origin).host === host?.toLowerCase() || (URL.canParse(url) && new URL(url).origin === origin);
}

/** CORS, without credentials: what a page may read of an answer, and send with the next request. */
export const corsFields = (origin: string): Readonly<Record<string, string>> => ({
  "access-control-allow-origin": origin,
  "access-control-expose-headers": "latchkey-error",
  vary: "Origin",
});

export const preflightFields = (methods: readonly string[]): Readonly<Record<string, string>> => ({
  "access-control-allow-methods": methods.join(", "),
  "access-control-allow-headers": "authorization, content-type",
  "access-control-max-age": "600",
});
