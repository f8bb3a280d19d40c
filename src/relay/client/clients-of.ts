import { IncomingMessage, ServerResponse } from "node:http";
import { StreamCaller } from "../http2/stream-client.ts";
import { StreamRequest, StreamResponse } from "../http2/stream-front.ts";
import type { Answering, Facing } from "./client-side.ts";
import { Caller } from "./http1-client.ts";
import type { FrontRequest, FrontResponse } from "./incoming.ts";

/** The half of the relay that faces a caller, by what the caller speaks. */
export function callerOf(request: FrontRequest, response: FrontResponse, answering: Answering): Facing {
  if (request instanceof IncomingMessage && response instanceof ServerResponse) {
    return new Caller(request, response, answering);
  }
  if (request instanceof StreamRequest && response instanceof StreamResponse) {
    return new StreamCaller(request, response, answering);
  }
  throw new Error("a request and its response must be of one protocol");
}
