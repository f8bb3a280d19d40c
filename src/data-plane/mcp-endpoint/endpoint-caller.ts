import type { Broker } from "../../broker/broker.ts";
import { type Caller, mayCallTool } from "../../broker/setup/caller.ts";
import { callerNow } from "../proxy/admission.ts";

/** The caller of a message, with what tools need of it. */
export interface EndpointCaller {
  readonly caller: Caller;
  readonly environment: string;
  /** The connection that the client's configuration names; empty: none. */
  readonly connectionHeader: string;
  /** Token of the user that the call acts for, not verified; undefined: none. */
  readonly subjectToken: string | undefined;
  /** The client's trace context. */
  readonly traceparent: string | undefined;
  /** Returns a signal that is aborted once the client has left. */
  leaving(): AbortSignal;
  /** Whether the caller's limits allow a tool. */
  admitsTool(name: string): boolean;
}

/** Returns a caller with what it may do now. Throws once its key or session has ended. */
export function endpointCallerNow(
  access: Pick<Broker["access"], "currentCaller">,
  before: EndpointCaller,
): EndpointCaller {
  const caller = callerNow(access, before.caller);
  return { ...before, caller, admitsTool: (name) => mayCallTool(caller, name) };
}
