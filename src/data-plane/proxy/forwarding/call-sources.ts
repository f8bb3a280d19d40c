import type { Caller } from "../../../broker/setup/caller.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { CallerAccess } from "../../server/authenticate-request.ts";
import type { Admission } from "../admission.ts";
import { type CallRequest, createCallRequests, requestedConnection } from "../call-request.ts";
import { type AuthenticatedCaller, createCallerLookup } from "../caller-lookup.ts";
import type { CallContext } from "../provider-call.ts";
import { createForwardedRequests, type ForwardChoices } from "./forwarded-requests.ts";

/** Finds the caller and the connection of a request: by its headers, or by its target on the forward proxy. */
export interface CallSources {
  /** Returns the caller. Throws, or rejects, for a key without access. */
  callerOf(context: CallContext): CalledBy | Promise<CalledBy>;
  /** Returns the connection. Throws, or rejects, if there is none. */
  connectionOf(context: CallContext, caller: Caller): ConnectionRef | Promise<ConnectionRef>;
  /** Returns both from memory. A promise settles when they may be asked for again; undefined: the full path knows. */
  peek(context: CallContext): CallRequest | Promise<void> | undefined;
}

export type CalledBy = Pick<AuthenticatedCaller, "key" | "caller">;

export interface CallSourcesOptions {
  readonly access: CallerAccess;
  readonly admission: Pick<Admission, "requireConnection">;
  /** Undefined: no listener is a forward proxy. */
  readonly choices?: ForwardChoices | undefined;
}

export function createCallSources({ access, admission, choices }: CallSourcesOptions): CallSources {
  const authenticate = createCallerLookup(access);
  const requestOf = createCallRequests({ access, authenticate, admission });
  const forwarded = choices && createForwardedRequests({ access, admission, choices });

  return {
    callerOf({ request, forward, caller: known }) {
      // The request itself has no key.
      if (known !== undefined) return { key: "", caller: known };
      if (forward === undefined || forwarded === undefined) return authenticate(request);
      const { key } = forward;
      const caller = forwarded.callerOf(forward);
      return caller instanceof Promise ? caller.then((one) => ({ key, caller: one })) : { key, caller };
    },
    connectionOf({ request, alias, forward }, caller) {
      return forward === undefined || forwarded === undefined
        ? requestedConnection(request, { environment: caller.environment, alias })
        : forwarded.connectionOf(request, forward, caller);
    },
    peek(context) {
      const { forward } = context;
      return forward === undefined ? requestOf(context) : forwarded?.peek(context.request, forward);
    },
  };
}
