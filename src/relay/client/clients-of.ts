import { IncomingMessage, ServerResponse } from "node:http";
import { Http2Client } from "../http2/stream-client.ts";
import { StreamRequest, StreamResponse } from "../http2/stream-front.ts";
import type { AnswerRules, ClientSide } from "./client-side.ts";
import { Http1Client } from "./http1-client.ts";
import type { FrontRequest, FrontResponse } from "./incoming.ts";

/** Returns the client side of the relay for the protocol of the client. */
export function callerOf(request: FrontRequest, response: FrontResponse, answering: AnswerRules): ClientSide {
  if (request instanceof IncomingMessage && response instanceof ServerResponse) {
    return new Http1Client(request, response, answering);
  }
  if (request instanceof StreamRequest && response instanceof StreamResponse) {
    return new Http2Client(request, response, answering);
  }
  throw new Error("a request and its response must be of one protocol");
}
