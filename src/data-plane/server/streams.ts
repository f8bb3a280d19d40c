import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import type { Socket } from "node:net";
import { Fault } from "../../base/fault.ts";
import { createHttp2Sessions } from "../../base/http/http2-sessions.ts";
import { type LiveMember, LiveSet } from "../../base/live-set.ts";
import { onBeat } from "../../base/loop/beat.ts";
import { StreamRequest, StreamResponse } from "../../relay/http2/stream-front.ts";

/** The HTTP/2 side of a listener: streams become requests like any other. */
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
  readonly onRequest: (call: StreamCall) => void;
  readonly fail: (call: StreamCall, fault: Fault) => void;
  readonly refuse: (fault: Fault, peer: string) => void;
}

/** A stream with the unread bytes of its response, and since when there have been that many. */
interface WatchedStream extends LiveMember {
  readonly stream: ServerHttp2Stream;
  bytes: number;
  since: number;
}

/** MB, including responses on their way to the client: a hundred, each with as much as a relay holds. */
const maxSessionMemory = 64;
const scanEveryMs = 1_000;

export const unmetExpectation = () => new Fault("invalid_headers", "the Expect header must be 100-continue or absent");

export function createDoorStreams(options: DoorStreamsOptions): DoorStreams {
  const { maxHeadBytes, maxHeadLines, stallMs, onRequest, fail, refuse } = options;
  const sessions = createHttp2Sessions({ maxHeadBytes, maxHeadLines, maxSessionMemory, refuse });
  const open = new LiveSet<WatchedStream>();

  sessions.server.on("stream", (stream, headers, flags, rawHeaders: readonly string[]) => {
    const socket = sessions.socketOf(stream);
    if (socket === undefined) {
      // The session has already ended.
      stream.destroy();
      return;
    }
    const opened = { place: -1, stream, bytes: 0, since: performance.now() };
    open.add(opened);
    stream.once("close", () => open.delete(opened));
    const request = new StreamRequest({ stream, headers, flags, rawHeaders, socket });
    const response = new StreamResponse(request);
    const call = { request, response, proceed: proceedFor(stream, headers) };
    sessions.begin(stream, () => {
      if (headers.expect === undefined || isContinue(headers)) onRequest(call);
      else fail(call, unmetExpectation());
    });
  });

  /** Drops complete responses that the client does not read. For incomplete ones, the provider's timeout applies. */
  function scan(): void {
    const now = performance.now();
    for (const seen of open.now()) {
      const { stream } = seen;
      const bytes = stream.writableEnded ? stream.bufferSize : 0;
      if (!stream.writableEnded || bytes !== seen.bytes) {
        seen.bytes = bytes;
        seen.since = now;
      } else if (now - seen.since > stallMs) {
        stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        // A client that stalls sends no further requests.
        stream.session?.close();
      }
    }
  }
  const stopScanning = onBeat(scanEveryMs, scan);

  return {
    serve: sessions.serve,
    leave: sessions.leave,
    drain: sessions.drain,
    destroy() {
      stopScanning();
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
