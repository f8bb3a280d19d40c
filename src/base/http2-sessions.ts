import http2, { type Http2Server, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { Socket } from "node:net";
import { limitControlFrames } from "./control-frames.ts";
import { Fault } from "./fault.ts";
import { isGone } from "./malformed.ts";

/** HTTP/2 towards callers, on sockets that somebody else has taken, with what keeps a peer from costing more than it does. */
export interface Http2Sessions {
  /** For what is asked: `stream`, or by `handle`. */
  readonly server: Http2Server;
  serve(socket: Socket): void;
  /** Each session hears, with the next stream that it begins, that it is the last one to go over it; and is served on. */
  leave(): void;
  /** Takes no more; each session ends when what is under way on it has ended. */
  drain(): void;
  destroy(): void;
}

interface Http2SessionsOptions {
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  /** In MB: with more than that waiting on a session, it gets no new streams. */
  readonly maxSessionMemory?: number;
  readonly handle?: (request: Http2ServerRequest, response: Http2ServerResponse) => void;
  /** A peer that broke the rules, and was sent away. */
  readonly refuse: (fault: Fault, peer: string) => void;
}

/** A peer that opens a session and no stream is let go after this, one that has nothing more to say after that. */
const firstStreamMs = 60_000;
const idleMs = 300_000;

export function createHttp2Sessions(options: Http2SessionsOptions): Http2Sessions {
  const { maxHeadBytes, maxHeadLines, maxSessionMemory = 10, handle, refuse } = options;
  const sessions = new Set<http2.ServerHttp2Session>();
  let isLeaving = false;
  let isDraining = false;
  const serverOptions = {
    maxSessionMemory,
    settings: { maxConcurrentStreams: 100, maxHeaderListSize: maxHeadBytes },
    maxHeaderListPairs: maxHeadLines,
    // What an answer says more than once is passed on as often, as over HTTP/1.1.
    strictSingleValueFields: false,
  };
  const server = http2.createServer(serverOptions, handle);
  server.on("session", (session) => {
    const { remoteAddress: peer = "unix" } = session.socket as Socket;
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.on("error", (error: NodeJS.ErrnoException) => {
      session.destroy();
      if (!isGone(error)) refuse(new Fault("malformed_request", error.message), peer);
    });
    session.setTimeout(firstStreamMs, () => session.close());
    session.once("stream", () => session.setTimeout(idleMs));
    let isTold = false;
    session.on("stream", () => {
      if (!isLeaving || isTold) return;
      isTold = true;
      sayLeaving(session);
    });
    limitControlFrames(session, () => {
      session.destroy(new Error("too many PING and SETTINGS frames"), http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
    if (isDraining) session.close();
  });
  return {
    server,
    serve: (socket) => void server.emit("connection", socket),
    leave() {
      isLeaving = true;
    },
    drain() {
      isLeaving = true;
      isDraining = true;
      for (const session of sessions) session.close();
    },
    destroy() {
      for (const session of sessions) session.destroy();
    },
  };
}

/** The highest stream that there can be: whatever is on its way is served, and nothing more is asked here (RFC 9113, 6.8). */
const everyStream = 2 ** 31 - 1;

/** With a stream that was begun: on a session where nothing happens it would cross the next request, and lose it. */
function sayLeaving(session: http2.ServerHttp2Session): void {
  if (!session.closed && !session.destroyed) session.goaway(http2.constants.NGHTTP2_NO_ERROR, everyStream);
}
