import { Fault } from "../../base/fault.ts";
import { createNote } from "../../base/memo.ts";
import type { CacheSlot } from "../../broker/credentials/live-connections.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import { type ProxyOptions, proxyOptions } from "../../core/outgoing/proxy-options.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import type { CallerAccess } from "../server/authenticate-request.ts";
import type { Admission } from "./admission.ts";
import { type CallerLookup, headerOf } from "./caller-lookup.ts";
import type { CallContext } from "./provider-call.ts";

/** The requested connection and options, and the caller. */
export interface CallRequest {
  readonly key: string;
  readonly caller: Caller;
  readonly ref: ConnectionRef;
  readonly alias: ConnectionRef | undefined;
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
 * caller is not cached, which settles when it may be.
 */
export function createCallRequests({ access, authenticate, admission }: CallRequestsOptions) {
  const known = createNote<CallRequest>();
  return ({ request, alias }: CallContext): CallRequest | Promise<void> => {
    const { memo } = request;
    const cached = memo && known.of(memo);
    const isKnown = cached !== undefined && cached.alias === alias;
    // Equal headers without a key may come from other connections, which prove other callers.
    if (isKnown && cached.key !== "" && access.isCurrent(cached.caller)) return cached;
    const authenticated = authenticate(request);
    // The full path asks again and reports the error.
    if (authenticated instanceof Promise) return authenticated.then(ignore, ignore);
    const { key, caller } = authenticated;
    if (isKnown && cached.key === key && cached.caller === caller) return cached;
    const ref = requestedConnection(request, { environment: caller.environment, alias });
    admission.requireConnection(caller, ref);
    const made = { key, caller, ref, alias, options: requestedOptions(request), slot: undefined };
    return memo === undefined ? made : known.keep(memo, made);
  };
}

const ignore = () => {};

export const requestedOptions = (request: FrontHead): ProxyOptions => proxyOptions((name) => headerOf(request, name));

interface ConnectionNaming {
  /** The environment of the caller. */
  readonly environment: string | undefined;
  readonly alias: ConnectionRef | undefined;
}

/** Throws for a control key, which has no environment. */
export function requireEnvironment(environment: string | undefined): string {
  if (environment !== undefined) return environment;
  throw new Fault("missing_scope", "this key is a control key; send the key of an environment");
}

/** Returns the connection that a request names. */
export function requestedConnection({ headers }: FrontHead, naming: ConnectionNaming): ConnectionRef {
  const { alias } = naming;
  const environment = requireEnvironment(naming.environment);
  if (alias !== undefined) {
    if (alias.environment === environment) return alias;
    throw new Fault("unknown_connection", "there is no such connection in this environment");
  }
  const integration = headers["provider-config-key"] ?? "";
  const id = headers["connection-id"] ?? "";
  if (typeof integration !== "string" || integration === "") {
    throw new Fault("invalid_headers", "send the header Provider-Config-Key with the key of an integration");
  }
  if (typeof id !== "string" || id === "") {
    throw new Fault("invalid_headers", "send the header Connection-Id with the id of a connection");
  }
  return { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id };
}
