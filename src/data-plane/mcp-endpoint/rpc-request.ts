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
  /** Asks a client of 2025-11-25 on the stream of the call; undefined: it cannot be asked there. */
  readonly askClient: AskClient | undefined;
}

/** Resolves with the answers by the names of the questions, and with what the caller may do by then. */
export type AskClient = (
  requests: JsonObject,
) => Promise<{ readonly answers: JsonObject; readonly caller: EndpointCaller }>;

export interface RpcResult {
  readonly result: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
  /** Writes events in place of the result, for as long as the client listens. */
  readonly stream?: RouteAnswer["stream"];
}
