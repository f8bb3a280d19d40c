import http2, { type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { everyStream, writeFirstGoaway } from "../node/first-goaway.ts";

/** Ends a session so that no request is lost (RFC 9113, 6.8). */
export interface Http2Goaway {
  /**
   * Serves a stream that the peer has begun: at once, or after a short hold during shutdown. A stream that ends while
   * held is never served.
   */
  begin(stream: ServerHttp2Stream, serve: () => void): void;
  /** Sends GOAWAY to the peer with its next stream, and keeps serving. */
  leave(): void;
  /** Sends GOAWAY to the peer now; the session ends when its streams have ended. */
  drain(): void;
}

/** Longest wait, while streams are held, for answers to end and for a PING to come back. */
const patienceMs = 250;
/**
 * Longest wait for the PING behind the first GOAWAY. Streams are served meanwhile, so that a slow client loses nothing
 * by it; a client that never answers a PING holds up a stop for this time.
 */
const roundTripMs = 1_000;
/** Streams that the client began before it read the first GOAWAY have this time more than a round trip to arrive. */
const crossingMs = 50;

/**
 * A client sends its next request when it has read a response. If a GOAWAY follows that response, Node's client cancels
 * the request as refused, and connect-node fails (221 calls in 100 shutdowns with 20 callers). So GOAWAY is sent while no
 * data is on its way to the peer: new streams are held until all earlier ones have ended and a PING came back, and are
 * served after the GOAWAY.
 */
export function prepareGoaway(session: ServerHttp2Session, socket: Socket): Http2Goaway {
  const underWay = new Set<ServerHttp2Stream>();
  const held: (() => void)[] = [];
  let hasBegun = false;
  let isLeaving = false;
  let telling: Promise<void> | undefined;
  let isTold = false;
  /** Set with the first GOAWAY. */
  let crossed: Promise<void> | undefined;

  function begin(stream: ServerHttp2Stream, serve: () => void): void {
    if (stream.destroyed) return;
    underWay.add(stream);
    stream.once("close", () => underWay.delete(stream));
    serve();
  }

  async function tellWhenRead(): Promise<void> {
    await areAnswered([...underWay]);
    await hasRead();
    tell();
  }

  function tell(): void {
    if (!session.closed && !session.destroyed) crossed = announce();
    isTold = true;
    for (const go of held.splice(0)) go();
  }

  /** Sends the first GOAWAY. Resolves when every stream that the client began before it read the GOAWAY has arrived. */
  async function announce(): Promise<void> {
    const isWritten = writeFirstGoaway(socket);
    if (!isWritten) session.goaway(http2.constants.NGHTTP2_NO_ERROR, everyStream);
    await hasRead(roundTripMs);
    await sleep(crossingMs);
    // After its own GOAWAY, nghttp2 has ignored these streams: tell the client at once that it may repeat them elsewhere.
    if (!isWritten && !session.closed && !session.destroyed) session.goaway(http2.constants.NGHTTP2_NO_ERROR);
  }

  /** Resolves when the peer has read everything sent so far, and the streams that it began before have arrived. */
  const hasRead = (forMs = patienceMs) =>
    patiently((done) => {
      if (session.destroyed) done();
      else session.ping(done);
    }, forMs);

  async function end(): Promise<void> {
    // Wait for the first request of a new peer.
    if (!hasBegun) await patiently((done) => session.once("stream", done));
    telling ??= Promise.resolve(tell());
    await telling;
    await crossed;
    session.close();
  }

  return {
    begin(stream, serve) {
      hasBegun = true;
      if (isLeaving) telling ??= tellWhenRead();
      if (telling === undefined || isTold) begin(stream, serve);
      else held.push(() => begin(stream, serve));
    },
    leave() {
      isLeaving = true;
    },
    drain() {
      isLeaving = true;
      void end();
    },
  };
}

const areAnswered = (streams: readonly ServerHttp2Stream[]) =>
  patiently((done) => {
    let left = streams.length;
    if (left === 0) done();
    for (const stream of streams) {
      stream.once("close", () => {
        left -= 1;
        if (left === 0) done();
      });
    }
  });

function patiently(wait: (done: () => void) => void, forMs = patienceMs): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(resolve, forMs);
    wait(() => {
      clearTimeout(late);
      resolve();
    });
  });
}
