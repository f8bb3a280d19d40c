import { IncomingMessage, ServerResponse } from "node:http";
import { Caller } from "./caller.ts";
import type { Answering, Facing } from "./facing.ts";
import type { FrontRequest, FrontResponse } from "./front.ts";
import { StreamCaller } from "./stream-caller.ts";
import { StreamRequest, StreamResponse } from "./stream-front.ts";

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
