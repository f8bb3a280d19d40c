import http2, {
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { Fault } from "../fault.ts";
import { onBeat } from "../loop/beat.ts";
import { canWriteFirstGoaway } from "../node/first-goaway.ts";
import { giveSocket } from "../node/injected-sockets.ts";
import { limitControlFrames } from "./control-frames.ts";
import { NodeLeavingSession } from "./http2-goaway.ts";
import { createSessionLife, type SessionLife } from "./http2-session-life.ts";
import { isGone } from "./malformed.ts";
import { SessionGoaway } from "./session-goaway.ts";

const accepted = new WeakMap<Http2Session, Socket>();

/** Returns the accepted connection of a request: Node shows a proxy of it, one for each stream. */
export const acceptedSocketOf = ({ stream: { session } }: Pick<Http2ServerRequest, "stream">): Socket | undefined =>
  session && accepted.get(session);

/** HTTP/2 sessions with clients on accepted sockets, with limits on what a peer can cost. */
export interface Http2Sessions {
  serve(socket: Socket): void;
  /** Announces on each session, with its next stream, that the session is ending; streams are still served. */
  leave(): void;
  /** Accepts no more streams; each session ends with its last stream. */
  drain(): void;
  destroy(): void;
}

interface Http2SessionsOptions {
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  readonly handle: (request: Http2ServerRequest, response: Http2ServerResponse) => void;
  /** Called for a peer that broke the rules and was disconnected. */
  readonly refuse: (fault: Fault, peer: string) => void;
}

const sweepEveryMs = 1_000;
/** In MB: a session with more pending data gets no new streams. */
const maxSessionMemory = 10;

/**
 * Serves requests through Node's compatibility layer. Without these listeners, Node answers CONNECT and `Expect`
 * itself, even on a stream that has already closed, and the error ends the process.
 */
function serveRequests(server: Http2Server, serve: Http2SessionsOptions["handle"]): void {
  const refuseWith = (status: number) => (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const { stream } = request;
    if (!stream.destroyed && !stream.closed) response.writeHead(status).end();
  };
  server.on("request", serve);
  server.on("checkContinue", (request, response) => {
    const { stream } = request;
    if (stream.destroyed || stream.closed) return;
    response.writeContinue();
    serve(request, response);
  });
  server.on("checkExpectation", refuseWith(417));
  server.on("connect", refuseWith(405));
}

interface OpenSession {
  readonly goaway: SessionGoaway;
  readonly life: SessionLife;
  readonly socket: Socket;
}

export function createHttp2Sessions(options: Http2SessionsOptions): Http2Sessions {
  const { maxHeadBytes, maxHeadLines, handle, refuse } = options;
  const sessions = new Map<Http2Session, OpenSession>();
  let isLeaving = false;
  let isDraining = false;
  const serverOptions = {
    maxSessionMemory,
    settings: { maxConcurrentStreams: 100, maxHeaderListSize: maxHeadBytes },
    maxHeaderListPairs: maxHeadLines,
    // Repeated headers are forwarded as often, as over HTTP/1.1.
    strictSingleValueFields: false,
  };
  void canWriteFirstGoaway();
  const server = http2.createServer(serverOptions);
  // First listener: a stream can be destroyed before another listener of `stream` runs, as when DATA in the same packet
  // contradicts its content-length, and an `error` without a listener ends the process. The handler of the stream learns
  // the cause from the code that the stream ends with.
  server.on("stream", (stream) => {
    stream.on("error", () => {});
    const session = servedBy(stream);
    if (session === undefined) return;
    const { life, goaway } = session;
    const { id = 0 } = stream;
    life.streamOpened();
    goaway.streamOpened(id);
    stream.once("close", () => {
      life.streamClosed();
      goaway.streamClosed(id);
    });
  });
  serveRequests(server, (request, response) => {
    const { stream } = request;
    const goaway = servedBy(stream)?.goaway;
    // Without a session, there is no client to respond to.
    if (goaway === undefined) return;
    // A stream that ends while it is held is never served.
    const serve = () => {
      if (!stream.destroyed && !stream.closed) handle(request, response);
    };
    if (goaway.isLeaving) goaway.begin(serve);
    else serve();
  });
  const servedBy = ({ session }: ServerHttp2Stream) => (session === undefined ? undefined : sessions.get(session));

  /** The connection in the current call of `serve`: `session` is emitted before `serve` returns. */
  let given: Socket | undefined;
  server.on("session", (session) => {
    const socket = given ?? (session.socket as Socket);
    const { remoteAddress: peer = "unix" } = socket;
    const goaway = new SessionGoaway(new NodeLeavingSession(session, socket));
    const life = createSessionLife({ session, socket, drain: () => goaway.drain() });
    sessions.set(session, { goaway, life, socket });
    accepted.set(session, socket);
    socket.once("close", () => sessions.delete(session));
    session.on("error", (error: NodeJS.ErrnoException) => {
      session.destroy();
      if (!isGone(error)) refuse(new Fault("malformed_request", error.message), peer);
    });
    if (isLeaving) goaway.leave();
    limitControlFrames(session, () => {
      session.destroy(new Error("too many PING and SETTINGS frames"), http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
    if (isDraining) goaway.drain();
  });
  const stopSweeping = onBeat(sweepEveryMs, () => {
    // Read bytes first that arrived while the process was paused, so that no client is considered late.
    setImmediate(() => {
      const nowMs = performance.now();
      for (const { life } of sessions.values()) life.sweep(nowMs);
    });
  });
  return {
    serve(socket) {
      // HTTP/1.1 sockets are half-open, as in Node's server. Node does not end a half-open socket below a session, so the
      // connection of a client that has left would stay open.
      socket.allowHalfOpen = false;
      given = socket;
      giveSocket(server, socket);
      given = undefined;
    },
    leave() {
      isLeaving = true;
      for (const { goaway } of sessions.values()) goaway.leave();
    },
    drain() {
      isLeaving = true;
      isDraining = true;
      for (const { goaway } of sessions.values()) goaway.drain();
    },
    destroy() {
      stopSweeping();
      for (const session of sessions.keys()) session.destroy();
    },
  };
}
