import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

/** Whether the client of a session is there, and whether the session gets on. */
export interface SessionLiveness {
  /** A frame of the client was read that opened or ended a stream. */
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
 * A client that sends nothing for this time is sent a PING, and must send something within the same time again. It may
 * be gone without a FIN, and over TLS Node does not always see the FIN of one that left while it was written to.
 */
const silentMs = 20_000;
/**
 * A client whose bytes do not become frames is sent a PING, and must answer it within this time: the deadline of a head
 * over HTTP/1.1. Between HEADERS and the CONTINUATION that ends the head no other frame may come (RFC 9113, 6.2), so a
 * client that drips a head cannot answer. Node has no event for the beginning of a head.
 */
const answerMs = 10_000;
/** An answer to a PING may wait behind a response: while more than this is written in a second, it is not expected. */
const writtenBytes = 1_024;

export function watchLiveness({ session, socket }: SessionLivenessOptions): SessionLiveness {
  let bytesRead = 0;
  let bytesWritten = 0;
  let heardMs = performance.now();
  /** The windows of the session as they were last: DATA and WINDOW_UPDATE change them. */
  let windows = "";
  let hasFrame = true;
  /** When the PING was sent that has no answer yet. */
  let pingedMs: number | undefined;
  /** The same, or when the session was seen to get on since. */
  let waitingSinceMs = 0;
  let isLate = false;

  function ping(nowMs: number): void {
    if (pingedMs !== undefined) return;
    pingedMs = nowMs;
    waitingSinceMs = nowMs;
    session.ping(() => {
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
      // A client that was paused may have sent other frames first: its answer is here by the next time.
      const isOver = isLate;
      isLate = true;
      return !isOver;
    },
  };
}
