import http2, { type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";

/** How one session is left so that no request is lost on the way (RFC 9113, 6.8). */
export interface Http2Goodbye {
  /** Serves a stream that the peer has begun: at once, but for a moment on the way out. One that ends by then, never. */
  begin(stream: ServerHttp2Stream, serve: () => void): void;
  /** The peer is told with the next stream that it begins, and served on. */
  leave(): void;
  /** The peer is told now, and the session ends when what is under way on it has ended. */
  drain(): void;
}

/** The highest stream that there can be: whatever is on its way is served, and nothing more is asked here. */
const everyStream = 2 ** 31 - 1;

/** An answer that takes longer, or a peer that returns no PING for so long, is not waited for. */
const patienceMs = 250;
/** Node's clients end a session that carries nothing as soon as they are told, and return no PING any more. */
const idlePatienceMs = 50;

/**
 * A client asks its next question when it has read an answer, and where a GOAWAY stands behind that answer, Node's takes
 * the question back as refused: connect-node fails with it (221 calls in 100 goodbyes said to 20 callers). So the peer is
 * told while nothing is on its way to it: what it begins is held until everything before that is answered and a PING has
 * come back, and served when it has been told.
 */
export function prepareGoodbye(session: ServerHttp2Session): Http2Goodbye {
  const underWay = new Set<ServerHttp2Stream>();
  const held: (() => void)[] = [];
  let hasBegun = false;
  let isLeaving = false;
  let telling: Promise<void> | undefined;
  let isTold = false;

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
    if (!session.closed && !session.destroyed) session.goaway(http2.constants.NGHTTP2_NO_ERROR, everyStream);
    isTold = true;
    for (const go of held.splice(0)) go();
  }

  /** What the peer was sent by now, it has read; and what it had begun by then has come. */
  const hasRead = (forMs = patienceMs) =>
    patiently((done) => {
      if (session.destroyed) done();
      else session.ping(done);
    }, forMs);

  async function end(): Promise<void> {
    // A peer that has only just come says first what it came for.
    if (!hasBegun) await patiently((done) => session.once("stream", done));
    telling ??= Promise.resolve(tell());
    await telling;
    await hasRead(underWay.size === 0 ? idlePatienceMs : patienceMs);
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
