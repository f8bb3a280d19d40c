import type { IncomingHttpHeaders } from "node:http";

/** What the headers of a request say of the navigation that it came by. */
export interface Navigation {
  /** A person's browser sent it. Programs send none of the fields that every browser sends. */
  readonly isBrowser: boolean;
  /** A page of this origin sent the browser here: a link or a form of ours. Older browsers do not say so. */
  readonly isFromOwnPage: boolean;
  /** It fills a tab of its own, in which the browser keeps cookies. */
  readonly isTopLevel: boolean;
  /** The browser fetches ahead of a click that may never come. */
  readonly isPrefetch: boolean;
}

/**
 * Reads Fetch Metadata (https://www.w3.org/TR/fetch-metadata/), which no page can set. Browsers leave these fields out
 * where the address is plain HTTP on another machine, and older ones everywhere: what looks like a browser and does not
 * say where it comes from counts as one that was sent by another site.
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
