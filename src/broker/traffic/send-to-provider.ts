import type { Fault } from "../../base/fault.ts";
import type { MessageFacts } from "../../core/policies/message-facts.ts";
import type { Verdict } from "../../core/policies/policy-set.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Caller } from "../setup/caller.ts";

/** Sends a request to a provider as if it had come to `/proxy`, and reads the response. */
export type SendToProvider = (request: ProxyRequest) => Promise<ProxyAnswer>;

export interface ProxyRequest {
  /** Already authenticated, and allowed to use the connection. */
  readonly caller: Caller;
  readonly ref: ConnectionRef;
  readonly method: string;
  readonly path: string;
  /** Name, value, name, value. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  readonly signal: AbortSignal;
  /** The message to our own MCP endpoint that asks for the request, for policies; undefined: none. */
  readonly message?: AskingMessage;
}

/** A message to our own MCP endpoint that asks for a request to a provider. */
export interface AskingMessage {
  readonly facts: MessageFacts;
  /**
   * Returns what policies say of the message alone; undefined: none of them reads messages. Called where the request
   * carries a message of its own, so that the facts of this one cannot be judged with it.
   */
  readonly judge: (now: { readonly caller: Caller; readonly connection: Connection }) => Verdict | undefined;
}

export interface ProxyAnswer {
  readonly status: number;
  /** Name, value, name, value. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  readonly isTruncated: boolean;
  /** Why Latchkey answered, and not the provider. */
  readonly fault: Fault | undefined;
  readonly totalMs: number;
  /** 0 if nothing was sent. */
  readonly addedMs: number;
  readonly attempts: number;
}
