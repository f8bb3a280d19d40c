import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";

/** A request on the general path, and its response. */
export interface DoorCall {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** Tells a caller that waits for `100 Continue` to send the body. */
  readonly proceed: () => void;
}

/** A request for a WebSocket. Node has detached its socket from the server. */
export interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** Bytes that followed the head of the request. */
  readonly early: Buffer;
}
