import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { silentMs, writtenBytes } from "./session-deadlines.ts";

/** Checks whether the client of a session is alive, and whether its bytes become frames. */
export interface SessionLiveness {
  /** Call when a frame of the client opened or ended a stream. */
  frameSeen(): void;
  /** Returns false when the client is gone, or sends bytes that do not become frames. */
  check(nowMs: number): boolean;
}

interface SessionLivenessOptions {
  readonly session: ServerHttp2Session;
  /** The connection that the session runs over. */
  readonly socket: Socket;
}

/**
 * A client whose bytes do not become frames gets a PING, and must respond within this time, the head timeout of
 * HTTP/1.1. No other frame may come between HEADERS and the CONTINUATION that ends the head (RFC 9113, 6.2), so a client
 * that drips a head cannot respond. Node has no event for the beginning of a head.
 */
const answerMs = 10_000;

export function watchLiveness({ session, socket }: SessionLivenessOptions): SessionLiveness {
  let bytesRead = 0;
  let bytesWritten = 0;
  let heardMs = performance.now();
  /** Last seen flow-control windows of the session: DATA and WINDOW_UPDATE change them. */
  let windows = "";
  let hasFrame = true;
  /** When the pending PING was sent. */
  let pingedMs: number | undefined;
  /** When the pending PING was sent, or the last progress since. */
  let waitingSinceMs = 0;
  let isLate = false;

  function ping(nowMs: number): void {
    if (pingedMs !== undefined) return;
    pingedMs = nowMs;
    waitingSinceMs = nowMs;
    session.ping((error) => {
      // Node could not send it, as on a session that is ending: no response of the client.
      if (error !== null) return;
      pingedMs = undefined;
      hasFrame = true;
    });
  }

  function getsOn(): boolean {
    const { effectiveRecvDataLength, localWindowSize, remoteWindowSize } = session.state;
    const current = `${effectiveRecvDataLength} ${localWindowSize} ${remoteWindowSize}`;
    const isSame = current === windows;
    const isWritten = socket.bytesWritten - bytesWritten > writtenBytes;
    const got = hasFrame || !isSame || isWritten;
    windows = current;
    bytesWritten = socket.bytesWritten;
    hasFrame = false;
    return got;
  }

  const frameSeen = () => {
    hasFrame = true;
  };
  for (const event of ["remoteSettings", "ping", "goaway"] as const) session.on(event, frameSeen);
  return {
    frameSeen,
    check(nowMs) {
      if (socket.bytesRead === bytesRead) {
        if (nowMs - heardMs > silentMs) ping(nowMs);
        return pingedMs === undefined || nowMs - waitingSinceMs <= silentMs;
      }
      bytesRead = socket.bytesRead;
      heardMs = nowMs;
      if (getsOn()) {
        waitingSinceMs = nowMs;
        isLate = false;
        return true;
      }
      ping(nowMs);
      if (nowMs - waitingSinceMs <= answerMs) return true;
      // A paused client may have sent other frames first: its response arrives by the next check.
      const isOver = isLate;
      isLate = true;
      return !isOver;
    },
  };
}
