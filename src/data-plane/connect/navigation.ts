import type { IncomingHttpHeaders } from "node:http";

/** Facts about the navigation that caused a request, from its headers. */
export interface Navigation {
  /** A person's browser sent the request. Programs send none of the headers that every browser sends. */
  readonly isBrowser: boolean;
  /** A page of this origin sent the browser here: a link or a form of Latchkey. Older browsers do not say so. */
  readonly isFromOwnPage: boolean;
  /** The page fills its own tab, in which the browser keeps cookies. */
  readonly isTopLevel: boolean;
  /** The browser fetches ahead of a click that may never come. */
  readonly isPrefetch: boolean;
}

/**
 * Reads Fetch Metadata (https://www.w3.org/TR/fetch-metadata/), which no page can set. Browsers omit these headers on
 * plain HTTP to another machine, and older browsers always do. A request that looks like a browser's and has no such
 * header counts as sent by another site.
 */
export function navigationOf(headers: IncomingHttpHeaders): Navigation {
  const site = headers["sec-fetch-site"];
  const destination = headers["sec-fetch-dest"];
  const purpose = [headers["sec-purpose"], headers["purpose"]].join();
  return {
    isBrowser: site !== undefined || hasMarksOfBrowser(headers),
    isFromOwnPage: site === "same-origin",
    isTopLevel: site !== undefined && (destination === undefined || destination === "document"),
    isPrefetch: /prefetch|prerender|preview/i.test(purpose),
  };
}

const hasMarksOfBrowser = (headers: IncomingHttpHeaders): boolean =>
  headers.referer !== undefined ||
  headers["upgrade-insecure-requests"] !== undefined ||
  /text\/html/i.test(headers.accept ?? "") ||
  /^(?:Mozilla|Opera)\//i.test(headers["user-agent"] ?? "");
