import { IncomingMessage, ServerResponse } from "node:http";
import { type Answering, Caller } from "./caller.ts";
import type { FrontRequest, FrontResponse } from "./front.ts";
import { StreamCaller } from "./stream-caller.ts";
import { StreamRequest, StreamResponse } from "./stream-front.ts";

export type AnyCaller = Caller | StreamCaller;

/** The half of the relay that faces a caller, by what the caller speaks. */
export function callerOf(request: FrontRequest, response: FrontResponse, answering: Answering): AnyCaller {
  if (request instanceof IncomingMessage && response instanceof ServerResponse) {
    return new Caller(request, response, answering);
  }
  if (request instanceof StreamRequest && response instanceof StreamResponse) {
    return new StreamCaller(request, response, answering);
  }
  throw new Error("a request and its response must be of one protocol");
}
