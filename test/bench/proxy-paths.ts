/** What the bench's provider answers, whichever program plays it. */
export const smallBytes = 1_024;
/** With Server, Date, Content-Length and Connection, or less, about 25 lines. */
export const answerFields: readonly string[] = [
  "Content-Type: application/json",
  "Cache-Control: no-cache, private",
  'ETag: W/"0123456789abcdef0123456789abcdef"',
  "X-Request-Id: 00000000-0000-4000-8000-000000000000",
  "X-RateLimit-Limit: 5000",
  "X-RateLimit-Remaining: 4999",
  "X-RateLimit-Reset: 1800000000",
  "Access-Control-Allow-Origin: *",
  "Access-Control-Expose-Headers: ETag, Link, Location, Retry-After",
  "Referrer-Policy: strict-origin-when-cross-origin",
  "X-Content-Type-Options: nosniff",
  "X-Frame-Options: deny",
  "Content-Security-Policy: default-src 'none'",
  "Last-Modified: Tue, 01 Jan 2030 00:00:00 GMT",
  "Content-Language: en",
  "Accept-Ranges: bytes",
  "Vary: Accept-Encoding, Accept",
  "Link: </next>",
  "X-Served-By: origin-1",
  "X-Timer: S1800000000.000000",
  "X-Version: 2030-01-01",
];
/** Seldom enough that nobody's memory or core is busy with it. */
export const streamEveryMs = 20_000;

/** What a peer puts into each request, as the sidecar puts the connection's credentials. */
export const providerKey = "key-of-the-provider-0123456789abcdef";
