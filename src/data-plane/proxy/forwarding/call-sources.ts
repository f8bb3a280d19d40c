import { Fault } from "../../../base/fault.ts";
import type { McpCalls } from "../../../broker/mcp/open.ts";
import { type Caller, requireAudience } from "../../../broker/setup/caller.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { namedConnection } from "../../mcp/named-connection.ts";
import { type CallerAccess, isFromBrowser } from "../../server/authenticate-request.ts";
import { callerOriginOf } from "../../server/caller-origin.ts";
import type { Admission } from "../admission.ts";
import { type CallRequest, createCallRequests } from "../call-request.ts";
import { type AuthenticatedCaller, createCallerLookup } from "../caller-lookup.ts";
import type { CallContext } from "../provider-call.ts";
import { createForwardedRequests, type ForwardChoices } from "./forwarded-requests.ts";

/** Finds the caller and the connection of a request: by its headers, or by its target on the forward proxy. */
export interface CallSources {
  /** Returns the caller. Throws, or rejects, for a key without access. */
  callerOf(context: CallContext): CalledBy | Promise<CalledBy>;
  /** Returns the connection. Throws, or rejects, if there is none. */
  connectionOf(context: CallContext, caller: Caller): ConnectionRef | Promise<ConnectionRef>;
  /** Returns both from memory. A promise resolves when they may be asked for again; undefined: the full path knows. */
  peek(context: CallContext): CallRequest | Promise<void> | undefined;
}

export type CalledBy = Pick<AuthenticatedCaller, "key" | "caller">;

export interface CallSourcesOptions {
  readonly access: CallerAccess;
  readonly admission: Pick<Admission, "requireConnection">;
  /** Undefined: no listener is a forward proxy. */
  readonly choices?: ForwardChoices | undefined;
  /** Undefined where there is no store: MCP clients then name their connection. */
  readonly mcp?: McpCalls | undefined;
}

export function createCallSources({ access, admission, choices, mcp }: CallSourcesOptions): CallSources {
  const authenticate = createCallerLookup(access);
  const requestOf = createCallRequests({ access, authenticate, admission });
  const forwarded = choices && createForwardedRequests({ access, admission, choices });

  function senderOf({ request, forward }: CallContext): CalledBy | Promise<CalledBy> {
    if (forward === undefined || forwarded === undefined) return authenticate(request);
    // A page could make the browser of an identity send requests.
    if (forward.peer !== undefined && isFromBrowser(request)) {
      throw new Fault("proxy_key_required", "browsers need a key: http://latchkey:<key>@host:port");
    }
    const { key } = forward;
    const caller = forwarded.callerOf(forward);
    return caller instanceof Promise ? caller.then((one) => ({ key, caller: one })) : { key, caller };
  }

  return {
    callerOf(context) {
      // The request itself has no key.
      if (context.caller !== undefined) return { key: "", caller: context.caller };
      const sender = senderOf(context);
      return sender instanceof Promise
        ? sender.then((one) => withinAudience(context, one))
        : withinAudience(context, sender);
    },
    connectionOf({ request, alias, forward }, caller) {
      return forward === undefined || forwarded === undefined
        ? namedConnection({ request, alias }, caller, mcp)
        : forwarded.connectionOf(request, forward, caller);
    },
    peek(context) {
      const { forward } = context;
      const found = forward === undefined ? requestOf(context) : forwarded?.peek(context.request, forward);
      return found === undefined || found instanceof Promise ? found : withinAudience(context, found);
    },
  };
}

/** Throws unless the caller may come from there. Checked for each request: connections share what is remembered. */
function withinAudience<T extends CalledBy>({ request, listener = "" }: CallContext, sender: T): T {
  const { caller } = sender;
  if (caller.accessSession?.audience !== undefined) requireAudience(caller, callerOriginOf(request, listener));
  return sender;
}
