/** The responses of the bench's provider, for any program that plays it. */
export const smallBytes = 1_024;
/** Server, Date, Content-Length and Connection may be added; about 25 lines with them. */
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
/** Rare enough to keep no memory or core busy. */
export const streamEveryMs = 20_000;

/** The key that a peer adds to each request, as the sidecar adds the connection's credentials. */
export const providerKey = "key-of-the-provider-0123456789abcdef";
