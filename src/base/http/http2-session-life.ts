import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { watchLiveness } from "./http2-liveness.ts";
import { ClientPace, closesAtMs, settingsMs, withoutStreamMs } from "./session-deadlines.ts";

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

export function createSessionLife({ session, socket, drain }: SessionLifeOptions): SessionLife {
  const openedMs = performance.now();
  let idleSinceMs = openedMs;
  let endedMs: number | undefined;
  let streams = 0;
  let hasSettings = false;
  let hasCarried = false;
  let isDraining = false;
  const pace = new ClientPace();
  const liveness = watchLiveness({ session, socket });
  session.once("remoteSettings", () => {
    hasSettings = true;
  });

  return {
    streamOpened() {
      liveness.frameSeen();
      streams += 1;
      hasCarried = true;
    },
    streamClosed() {
      liveness.frameSeen();
      streams -= 1;
      idleSinceMs = performance.now();
    },
    sweep(nowMs) {
      pace.look(socket, nowMs);
      if (session.destroyed || (session.closed && streams === 0)) {
        // Node waits for the client to close its side, without a limit.
        endedMs ??= nowMs;
        const answeredMs = hasCarried ? idleSinceMs : undefined;
        const ended = { endedMs, answeredMs, pace, unsentBytes: socket.writableLength };
        if (nowMs > closesAtMs(ended)) socket.destroy();
      } else if (!hasSettings) {
        if (nowMs - openedMs > settingsMs) session.destroy();
      } else if (!liveness.check(nowMs)) {
        session.destroy();
        socket.destroy();
      } else if (streams === 0 && !isDraining && nowMs - idleSinceMs > withoutStreamMs(hasCarried)) {
        isDraining = true;
        drain();
      }
    },
  };
}
