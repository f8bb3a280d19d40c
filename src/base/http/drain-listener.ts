import type { Server } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { backlog } from "./listener.ts";

/** A connection that has been answered has this time for its next request when a listener stops. */
const nextRequestMs = 100;
/** A new connection has this time for its TLS handshake and its first request. */
export const firstRequestMs = 1_000;
const lookEveryMs = 20;

/** Connections without a request since before these times are to be closed. */
export interface IdleSince {
  /** For those that have carried no request: when they were opened. */
  readonly openedMs: number;
  /** For others: when their last response was complete. */
  readonly answeredMs: number;
}

const none: IdleSince = { openedMs: 0, answeredMs: 0 };

/**
 * Stops listening; resolves when the last connection has ended. Requests that clients have sent by now are answered:
 * connections that wait to be accepted, which the system would reset with the listener, are accepted first, and
 * connections without a request are closed only after a while, when everything that has arrived is read.
 */
export async function drainListener(server: Server, closeIdle: (since: IdleSince) => void): Promise<void> {
  const startedMs = performance.now();
  let nowMs = startedMs;
  const look = () => closeIdle(nowMs - startedMs < nextRequestMs ? none : idleSince(nowMs));
  const looking = setInterval(() => {
    nowMs = performance.now();
    // Read bytes first that arrived while the process was paused.
    setImmediate(look);
  }, lookEveryMs);
  await acceptWaiting(server);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  clearInterval(looking);
}

const idleSince = (nowMs: number): IdleSince => ({
  openedMs: nowMs - firstRequestMs,
  answeredMs: nowMs - nextRequestMs,
});

/** A turn of the event loop accepts one connection: turns until one accepts none, or all that can wait are accepted. */
async function acceptWaiting(server: Server): Promise<void> {
  let accepted = 0;
  const count = () => {
    accepted += 1;
  };
  server.on("connection", count);
  // This turn may be over its reads.
  await nextTurn();
  for (let before = -1; before < accepted && accepted < backlog; ) {
    before = accepted;
    await nextTurn();
  }
  server.off("connection", count);
}
