/** Deadlines of an HTTP/2 session with a client, on every listener. */

/** The client's SETTINGS must come within this time: they are the first frame (RFC 9113, 3.4). */
export const settingsMs = 10_000;
/** The first request must come within this time, as over HTTP/1.1. */
const firstStreamMs = 10_000;
/** A session without streams is kept for this time. */
const idleMs = 300_000;
/**
 * A client that is silent for this time gets a PING, and must send something within the same time again. It may have
 * left without a FIN, and over TLS Node may miss the FIN of a client that left during a write.
 */
export const silentMs = 20_000;
/** A PING response may wait behind other data: while more than this is written per second, it is not expected. */
export const writtenBytes = 1_024;
/** Limits how long the client may take to close its side after the listener did; it may have responses to read. */
const closingMs = 30_000;
const closingUnusedMs = 2_000;

/** How long a session may be without a stream. */
export const withoutStreamMs = (hasCarried: boolean): number => (hasCarried ? idleMs : firstStreamMs);

/** How long the client may take to close its side. `hasResponses`: it may have some to read. */
export const toCloseMs = (hasResponses: boolean): number => (hasResponses ? closingMs : closingUnusedMs);
