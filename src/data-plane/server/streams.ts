import { Fault } from "../../base/fault.ts";
import { type CallerSessions, createCallerSessions } from "../../relay/http2/callers/caller-sessions.ts";
import { type StreamRequest, StreamResponse } from "../../relay/http2/stream-front.ts";

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

export const unmetExpectation = () => new Fault("invalid_headers", "the Expect header must be 100-continue or absent");

/** The HTTP/2 side of a listener: streams become requests like any other. */
export function createDoorStreams(options: DoorStreamsOptions): CallerSessions {
  const { maxHeadBytes, maxHeadLines, stallMs, onRequest, fail, refuse } = options;
  return createCallerSessions({
    maxHeadBytes,
    maxHeadLines,
    stallMs,
    serve(request) {
      const response = new StreamResponse(request);
      const { expect } = request.headers;
      if (expect === undefined) {
        onRequest({ request, response, proceed: nothing });
      } else if (expect.toLowerCase() === "100-continue") {
        onRequest({ request, response, proceed: () => response.inform(100) });
      } else {
        fail({ request, response, proceed: nothing }, unmetExpectation());
      }
    },
    refuse: (message, peer) => refuse(new Fault("malformed_request", message), peer),
  });
}

const nothing = () => {};
