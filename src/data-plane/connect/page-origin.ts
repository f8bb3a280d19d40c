import type { IncomingHttpHeaders } from "node:http";
import { Fault } from "../../base/fault.ts";
import type { Route } from "../server/routes.ts";

/** Allowed origins of web pages. */
export interface PageOrigins {
  /** Whether any environment allows the origin; the session in the request names the environment. */
  readonly isKnown: (origin: string) => boolean;
  /** Names of all environments, to find the one that lacks an origin. */
  readonly environments: () => readonly string[];
  /** The URL under which browsers reach Latchkey. */
  readonly publicUrl: () => string;
}

interface BrowserRequestHead {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

const refused = () => new Fault("origin_not_allowed", "requests from that web page are not allowed");

/**
 * Checks a browser's request to a route that pages may use. Returns the origin that may read the response; undefined:
 * only our own.
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

/** Accepts a person who follows a link from anywhere, or who sends a form of our own page. */
function checkNavigation({ method, headers }: BrowserRequestHead, origins: PageOrigins): void {
  const { origin } = headers;
  const fetchSite = headers["sec-fetch-site"];
  // Browsers send both headers; a client that sends only one is not a browser.
  if (fetchSite !== undefined && headers["sec-fetch-mode"] !== "navigate") throw refused();
  if (method === "GET" || method === "HEAD") {
    if (origin !== undefined) throw refused();
    return;
  }
  // A page that hides its referrer hides its origin too, so its form has the origin `null`.
  const isOurs = origin === undefined || origin === "null" || isOwn(origin, headers, origins);
  if (!isOurs || (fetchSite !== undefined && fetchSite !== "same-origin")) throw refused();
}

/** Returns whether the origin is the listener's own. The host was checked: no other site has it. */
export function isOwn(
  origin: string,
  { host }: IncomingHttpHeaders,
  { publicUrl }: Pick<PageOrigins, "publicUrl">,
): boolean {
  if (!URL.canParse(origin)) return false;
  const url = publicUrl();
  return new URL(origin).host === host?.toLowerCase() || (URL.canParse(url) && new URL(url).origin === origin);
}

/** Returns what to do about a page that was refused. */
export const allowOrigin = (origin: string): string =>
  `pages of ${origin.slice(0, 200)} are not allowed: add this origin to allowed_origins of the environment`;

/** Headers of MCP clients, of which some run in pages. */
const mcpHeaders = ["mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "connection-id"];

/** CORS, without credentials: what a page may read of an answer, and send with the next request. */
export const corsFields = (origin: string): Readonly<Record<string, string>> => ({
  "access-control-allow-origin": origin,
  "access-control-expose-headers": "latchkey-error, mcp-session-id, www-authenticate",
  vary: "Origin",
});

export const preflightFields = (methods: readonly string[]): Readonly<Record<string, string>> => ({
  "access-control-allow-methods": methods.join(", "),
  "access-control-allow-headers": `authorization, content-type, ${mcpHeaders.join(", ")}`,
  "access-control-max-age": "600",
});
