import type { Socket } from "node:net";
import { onBeat } from "../../../base/loop/beat.ts";
import { finishTick } from "../../batching.ts";
import { type CallerSessionOwner, Http2CallerSession } from "./caller-session.ts";

/** The HTTP/2 sessions of a listener with its clients. */
export interface CallerSessions {
  serve(socket: Socket): void;
  /** Announces on each session, with its next stream, that the session is ending; streams are still served. */
  leave(): void;
  /** Accepts no more streams; each session ends with its last stream. */
  drain(): void;
  destroy(): void;
}

const sweepEveryMs = 1_000;

export function createCallerSessions(options: Omit<CallerSessionOwner, "closed">): CallerSessions {
  const { maxHeadBytes, maxHeadLines, stallMs, serve, refuse } = options;
  const sessions = new Set<Http2CallerSession>();
  let isLeaving = false;
  let isDraining = false;
  const owner: CallerSessionOwner = {
    maxHeadBytes,
    maxHeadLines,
    stallMs,
    serve,
    refuse,
    closed: (session) => void sessions.delete(session),
  };
  const stopSweeping = onBeat(sweepEveryMs, () => {
    // Read bytes first that arrived while the process was paused, so that no client is considered late.
    setImmediate(() => {
      finishTick();
      const nowMs = performance.now();
      for (const session of sessions) session.sweep(nowMs);
    });
  });

  return {
    serve(socket) {
      const session = new Http2CallerSession(socket, owner);
      sessions.add(session);
      if (isLeaving) session.leave();
      if (isDraining) session.drain();
    },
    leave() {
      isLeaving = true;
      for (const session of sessions) session.leave();
    },
    drain() {
      isLeaving = true;
      isDraining = true;
      for (const session of sessions) session.drain();
    },
    destroy() {
      stopSweeping();
      for (const session of sessions) session.destroy();
    },
  };
}
