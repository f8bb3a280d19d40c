import { createNote } from "../../base/memo.ts";
import type { CacheSlot } from "../../broker/credentials/live-connections.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import { type ProxyOptions, proxyOptions } from "../../core/outgoing/proxy-options.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { mcpConnection } from "../mcp/named-connection.ts";
import { isUnderMcp, mcpIntegrationOf } from "../mcp/target.ts";
import type { CallerAccess } from "../server/authenticate-request.ts";
import type { Admission } from "./admission.ts";
import { type CallerLookup, headerOf } from "./caller-lookup.ts";
import { requestedConnection } from "./forwarding/requested-connection.ts";
import type { CallContext } from "./provider-call.ts";

/** The requested connection and options, and the caller. */
export interface CallRequest {
  readonly key: string;
  readonly caller: Caller;
  readonly ref: ConnectionRef;
  readonly alias: ConnectionRef | undefined;
  /** The integration that a path below `/mcp/` names. */
  readonly mcpIntegration: string | undefined;
  readonly options: ProxyOptions;
  /** Cache slot of the connection at the last request. */
  slot: CacheSlot | undefined;
}

interface CallRequestsOptions {
  readonly access: Pick<CallerAccess, "isCurrent">;
  readonly authenticate: CallerLookup;
  readonly admission: Pick<Admission, "requireConnection">;
}

/**
 * Returns the reader of call requests. Repeated headers are parsed once; the key is checked each time. A promise if the
 * caller is not cached, which resolves when it is. Undefined: only the full path knows the connection.
 */
export function createCallRequests({ access, authenticate, admission }: CallRequestsOptions) {
  const known = createNote<CallRequest>();
  return ({ request, alias }: CallContext): CallRequest | Promise<void> | undefined => {
    const { memo } = request;
    const cached = memo && known.of(memo);
    const mcpIntegration = alias === undefined && isUnderMcp(request) ? mcpIntegrationOf(request) : undefined;
    const isKnown = cached !== undefined && cached.alias === alias && cached.mcpIntegration === mcpIntegration;
    // Equal headers without a key may come from other connections, which prove other callers.
    if (isKnown && cached.key !== "" && access.isCurrent(cached.caller)) return cached;
    const authenticated = authenticate(request);
    // The full path asks again and reports the error.
    if (authenticated instanceof Promise) return authenticated.then(ignore);
    const { key, caller } = authenticated;
    if (isKnown && cached.key === key && cached.caller === caller) return cached;
    const ref =
      mcpIntegration === undefined
        ? requestedConnection(request, { environment: caller.environment, alias })
        : mcpConnection(request, caller);
    // The full path looks for the only connection.
    if (ref.id === "") return undefined;
    admission.requireConnection(caller, ref);
    const options = requestedOptions(request);
    const made = { key, caller, ref, alias, mcpIntegration, options, slot: undefined };
    return memo === undefined ? made : known.keep(memo, made);
  };
}

const ignore = () => {};

export const requestedOptions = (request: FrontHead): ProxyOptions => proxyOptions((name) => headerOf(request, name));
