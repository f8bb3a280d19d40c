import type { JsonObject } from "@bufbuild/protobuf";
import type { ClientProfile } from "../../core/mcp-endpoint/client-profile.ts";
import type { RpcId } from "../../core/mcp-endpoint/protocol.ts";
import type { RouteAnswer } from "../server/routes.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { CallWatch } from "./tool-call.ts";

/** A request of the protocol, whose headers have been checked. */
export interface RpcRequest {
  readonly method: string;
  readonly params: JsonObject;
  readonly client: ClientProfile;
  readonly caller: EndpointCaller;
  readonly watch: CallWatch;
  readonly id: RpcId;
  /** The client takes a stream of events as the answer. */
  readonly takesEvents: boolean;
}

export interface RpcResult {
  readonly result: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
  /** Writes events in place of the result, for as long as the client listens. */
  readonly stream?: RouteAnswer["stream"];
}
