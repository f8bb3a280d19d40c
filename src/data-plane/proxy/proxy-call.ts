import type { Fault } from "../../base/fault.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import type { CallContext } from "./provider-call.ts";

/** A request to relay, from the fast path or the general path. */
export interface ProxyCall {
  readonly context: CallContext;
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
}
