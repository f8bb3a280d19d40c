import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import type { Socket } from "node:net";
import { Fault } from "../../base/fault.ts";
import { createHttp2Sessions } from "../../base/http/http2-sessions.ts";
import { StreamRequest, StreamResponse } from "../../relay/http2/stream-front.ts";

/** The half of a door that speaks HTTP/2: streams become requests like any other. */
export interface DoorStreams {
  serve(socket: Socket): void;
  leave(): void;
  drain(): void;
  destroy(): void;
}

interface StreamCall {
  readonly request: StreamRequest;
  readonly response: StreamResponse;
  readonly proceed: () => void;
}

interface DoorStreamsOptions {
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  readonly stallMs: number;
  readonly onRequest: (asked: StreamCall) => void;
  readonly fail: (asked: StreamCall, fault: Fault) => void;
  readonly refuse: (fault: Fault, peer: string) => void;
}

/** In MB. Answers on their way to a caller count: a hundred of them, with as much of each as a relay holds. */
const maxSessionMemory = 64;
const lookEveryMs = 1_000;

export const unmetExpectation = () => new Fault("invalid_headers", "the Expect header must be 100-continue or absent");

export function createDoorStreams(options: DoorStreamsOptions): DoorStreams {
  const { maxHeadBytes, maxHeadLines, stallMs, onRequest, fail, refuse } = options;
  const sessions = createHttp2Sessions({ maxHeadBytes, maxHeadLines, maxSessionMemory, refuse });
  /** What is waiting to be taken, and since when as much of it. */
  const open = new Map<ServerHttp2Stream, { bytes: number; since: number }>();

  sessions.server.on("stream", (stream, headers, flags, rawHeaders: readonly string[]) => {
    const socket = sessions.socketOf(stream);
    if (socket === undefined) {
      // Its session is gone already.
      stream.destroy();
      return;
    }
    open.set(stream, { bytes: 0, since: performance.now() });
    stream.once("close", () => open.delete(stream));
    const request = new StreamRequest({ stream, headers, flags, rawHeaders, socket });
    const response = new StreamResponse(request);
    const asked = { request, response, proceed: proceedFor(stream, headers) };
    sessions.begin(stream, () => {
      if (headers.expect === undefined || isContinue(headers)) onRequest(asked);
      else fail(asked, unmetExpectation());
    });
  });

  /** An answer that is complete and that nobody takes is held in vain; one that is not, its provider's clock sees. */
  function look(): void {
    const now = performance.now();
    for (const [stream, seen] of open) {
      const bytes = stream.writableEnded ? stream.bufferSize : 0;
      if (!stream.writableEnded || bytes !== seen.bytes) {
        seen.bytes = bytes;
        seen.since = now;
      } else if (now - seen.since > stallMs) {
        stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        // Who stands still is taken no more of.
        stream.session?.close();
      }
    }
  }
  const looking = setInterval(look, lookEveryMs);
  looking.unref();

  return {
    serve: sessions.serve,
    leave: sessions.leave,
    drain: sessions.drain,
    destroy() {
      clearInterval(looking);
      sessions.destroy();
    },
  };
}

const isContinue = ({ expect }: IncomingHttpHeaders): boolean => expect?.toLowerCase() === "100-continue";

const nothing = () => {};

function proceedFor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): () => void {
  if (!isContinue(headers)) return nothing;
  return () => {
    if (!stream.headersSent && !stream.destroyed) stream.additionalHeaders({ ":status": 100 });
  };
}
