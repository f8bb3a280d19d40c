import type { Fault } from "../../base/fault.ts";
import type { LiveMember } from "../../base/live-set.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import type { RequestSubject } from "../../broker/traffic/request-ring.ts";
import type { RpcMessage } from "../../core/mcp/message-scanner.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import type { CallContext, ProviderCall } from "./provider-call.ts";

/** A request to relay, from the fast path or the general path. */
export interface ProxyCall extends NotableCall {
  readonly context: CallContext;
  message?: NotedMessage | undefined;
  /** Set by the request that is relayed. */
  relayed: RelayedCall | undefined;
  /** Whether the caller has left. */
  readonly isGone: boolean;
  /** Whether the caller has left or its response has begun: no error can be sent then. */
  readonly isSettled: boolean;
  /** Returns the client side of the relay. */
  clientSide(answering: AnswerRules): ClientSide;
  /** Tells a caller that waits for `100 Continue` to send the body. */
  proceed(): void;
  answerFault(fault: Fault): void;
  /** The head of the response follows. Endless: a response without end, for which shutdown does not wait. */
  beginAnswer(isEndless: boolean): void;
  /** Cuts a response, so that it does not look complete. */
  cut(): void;
}

/** What is known of a request when it is over. */
export interface NotableCall extends LiveMember {
  readonly context: CallContext;
  /** Key and connection. Undefined if the key was refused, or if the request is relayed. */
  readonly named: CallNaming | undefined;
  /** Undefined if nothing was sent to a provider. */
  readonly relayed: RelayedCall | undefined;
  /** The message to an MCP server that was refused before anything was sent. */
  readonly message?: NotedMessage | undefined;
  /** The error that Latchkey answered with. */
  readonly fault: Fault | undefined;
  /** A response without end, whose duration says nothing. */
  readonly isEndless: boolean;
}

export type NotedMessage = Pick<RpcMessage, "method" | "name">;

/** The key and the connection that a request named. */
export interface CallNaming {
  readonly key: string;
  readonly caller: Caller;
  readonly ref: RequestSubject;
  readonly since: number;
}

/** A request that was sent to a provider. */
export interface RelayedCall {
  readonly ready: ProviderCall;
  /** Microseconds until it was first sent: a small integer, which needs no memory of its own. */
  readonly addedMicros: number;
  readonly sends: number;
  readonly up: number;
  readonly down: number;
  readonly traceId: string;
  readonly isTunnel: boolean;
  /** The message to an MCP server, also one that was refused; undefined: there was none, or it could not be read. */
  readonly message: NotedMessage | undefined;
}
