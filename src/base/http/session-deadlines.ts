import type { Socket } from "node:net";

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
/** The client must close its side within this time after the listener did. */
const closingMs = 2_000;
/**
 * A client has at least this time for the last response. An idle client may read nothing (httpx does not), and so
 * see no end of its session: it must not hold up a stop for longer. One that still sends WINDOW_UPDATE reads.
 */
const readingMs = 10_000;
/**
 * A client that has yet to take bytes has this time after the end, and one that was sent much this time to read it.
 * No client has more.
 */
const bulkReadingMs = 30_000;
/** Much for one second: all buffers between a listener and a client hold a few MiB. */
const bulkBytes = 64 * 1024;

/** How long a session may be without a stream. */
export const withoutStreamMs = (hasCarried: boolean): number => (hasCarried ? idleMs : firstStreamMs);

interface EndedSession {
  /** When the listener has ended its side. */
  readonly endedMs: number;
  /** When the last response was complete; undefined: there is none that the client should read. */
  readonly answeredMs: number | undefined;
  readonly pace: Pick<ClientPace, "bulkMs" | "heardMs">;
  /** Bytes that the socket has not sent. */
  readonly unsentBytes: number;
}

/** When the connection of a session that has ended is closed, although the client has not closed its side. */
export function closesAtMs({ endedMs, answeredMs, pace: { bulkMs, heardMs }, unsentBytes }: EndedSession): number {
  if (answeredMs === undefined) return endedMs + closingMs;
  if (unsentBytes > 0) return endedMs + bulkReadingMs;
  const silentAtMs = Math.max(endedMs + closingMs, answeredMs + readingMs, bulkMs + bulkReadingMs);
  // What comes before may answer the end.
  const isReading = heardMs > endedMs + closingMs;
  return isReading ? Math.min(endedMs + bulkReadingMs, Math.max(silentAtMs, heardMs + readingMs)) : silentAtMs;
}

/** Notes when much was written to a client, and when it last sent something. */
export class ClientPace {
  #bytesRead = 0;
  #bytesWritten = 0;
  #bulkMs = Number.NEGATIVE_INFINITY;
  #heardMs = Number.NEGATIVE_INFINITY;

  get bulkMs(): number {
    return this.#bulkMs;
  }

  get heardMs(): number {
    return this.#heardMs;
  }

  /** Called every second. */
  look({ bytesRead, bytesWritten }: Pick<Socket, "bytesRead" | "bytesWritten">, nowMs: number): void {
    if (bytesWritten - this.#bytesWritten > bulkBytes) this.#bulkMs = nowMs;
    if (bytesRead > this.#bytesRead) this.#heardMs = nowMs;
    this.#bytesWritten = bytesWritten;
    this.#bytesRead = bytesRead;
  }
}
