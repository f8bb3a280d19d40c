import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

/** Deadlines of one HTTP/2 session with a client. PINGs do not extend them. */
export interface SessionLife {
  streamOpened(): void;
  streamClosed(): void;
  /** Ends the session, or its connection, when a deadline has passed. */
  sweep(nowMs: number): void;
}

interface SessionLifeOptions {
  readonly session: ServerHttp2Session;
  /** The connection that the session runs over. */
  readonly socket: Socket;
  /** Tells the client with GOAWAY and ends the session when its streams have ended. */
  readonly drain: () => void;
}

/** The client's SETTINGS must come within this time: they are the first frame (RFC 9113, 3.4). */
const settingsMs = 10_000;
/** The first request must come within this time, as over HTTP/1.1. */
const firstStreamMs = 10_000;
/** A session without streams is kept for this time. */
const idleMs = 300_000;
/** A client must close its side within this time after the door has; it may have answers to read before. */
const closingMs = 30_000;
const closingUnusedMs = 2_000;
/**
 * A client that sends nothing for this time is sent a PING, and must send something within the same time again. It may
 * be gone without a FIN, and over TLS Node does not always see the FIN of one that left while it was written to.
 */
const silentMs = 20_000;

export function createSessionLife({ session, socket, drain }: SessionLifeOptions): SessionLife {
  const openedMs = performance.now();
  let idleSinceMs = openedMs;
  let closingSinceMs: number | undefined;
  let streams = 0;
  let hasSettings = false;
  let hasCarried = false;
  let isDraining = false;
  let bytesRead = 0;
  let heardMs = openedMs;
  let isAsked = false;
  /** Whether the client has sent nothing, not even the answer to a PING. */
  function isGone(nowMs: number): boolean {
    if (socket.bytesRead !== bytesRead) {
      bytesRead = socket.bytesRead;
      heardMs = nowMs;
      isAsked = false;
    }
    if (nowMs - heardMs > silentMs && !isAsked) {
      isAsked = true;
      session.ping(() => {});
    }
    return nowMs - heardMs > 2 * silentMs;
  }
  session.once("remoteSettings", () => {
    hasSettings = true;
  });

  return {
    streamOpened() {
      streams += 1;
      hasCarried = true;
    },
    streamClosed() {
      streams -= 1;
      idleSinceMs = performance.now();
    },
    sweep(nowMs) {
      if (session.destroyed || (session.closed && streams === 0)) {
        // Node waits for the client to close its side, however long that takes.
        closingSinceMs ??= nowMs;
        if (nowMs - closingSinceMs > (hasCarried ? closingMs : closingUnusedMs)) socket.destroy();
      } else if (!hasSettings) {
        if (nowMs - openedMs > settingsMs) session.destroy();
      } else if (isGone(nowMs)) {
        session.destroy();
        socket.destroy();
      } else if (streams === 0 && !isDraining && nowMs - idleSinceMs > (hasCarried ? idleMs : firstStreamMs)) {
        isDraining = true;
        drain();
      }
    },
  };
}
