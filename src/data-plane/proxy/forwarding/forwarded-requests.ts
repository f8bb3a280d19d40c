import { createNote } from "../../../base/memo.ts";
import type { Caller } from "../../../broker/setup/caller.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../../relay/client/incoming.ts";
import type { CallerAccess } from "../../server/authenticate-request.ts";
import type { Admission } from "../admission.ts";
import { type CallRequest, requestedOptions } from "../call-request.ts";
import { headerOf } from "../caller-lookup.ts";
import type { ForwardTarget, ProxyConnectionName } from "./forward-target.ts";
import { callerOfTarget } from "./target-caller.ts";

/** Finds the connection for a request of the forward proxy. */
export interface ForwardChoices {
  /** Returns a choice from memory; a promise if it must be looked up. Throws, or rejects, if there is none or several. */
  of(request: ForwardChoiceRequest): ForwardChoice | Promise<ForwardChoice>;
}

export interface ForwardChoiceRequest {
  readonly target: ForwardTarget;
  readonly caller: Caller;
  /** The connection that the request names itself. */
  readonly named: ProxyConnectionName | undefined;
  /** Path and query. */
  readonly path: string;
}

export interface ForwardChoice {
  readonly ref: ConnectionRef;
  /** Time of the monotonic clock until which the choice stands. */
  readonly untilMs: number;
  /** The choice is the same for every path of the target. */
  readonly isForAnyPath: boolean;
}

interface ForwardedRequestsOptions {
  readonly admission: Pick<Admission, "requireConnection">;
  readonly access: CallerAccess;
  readonly choices: ForwardChoices;
}

export interface ForwardedRequests {
  /** Returns the caller of a target's key, which is checked each time. Throws, or rejects. */
  callerOf(target: ForwardTarget): Caller | Promise<Caller>;
  /** Returns the connection of a request. Throws, or rejects. */
  connectionOf(request: FrontHead, target: ForwardTarget, caller: Caller): ConnectionRef | Promise<ConnectionRef>;
  /** Returns what repeated headers ask for, from memory. A promise resolves when it may be asked for again. */
  peek(request: FrontHead, target: ForwardTarget): CallRequest | Promise<void> | undefined;
}

interface RememberedRequest {
  readonly target: ForwardTarget;
  readonly untilMs: number;
  readonly request: CallRequest;
}

export function createForwardedRequests({ access, admission, choices }: ForwardedRequestsOptions): ForwardedRequests {
  const known = createNote<RememberedRequest>();

  const callerOf = (target: ForwardTarget) => callerOfTarget(access, target);

  const choose = (request: FrontHead, target: ForwardTarget, caller: Caller) =>
    choices.of({ target, caller, named: namedIn(request), path: pathOf(request) });

  return {
    callerOf,
    connectionOf(request, target, caller) {
      const chosen = choose(request, target, caller);
      return chosen instanceof Promise ? chosen.then(({ ref }) => ref) : chosen.ref;
    },
    peek(request, target) {
      const { memo } = request;
      const cached = memo && known.of(memo);
      const isUsable = cached !== undefined && cached.target === target && cached.untilMs > performance.now();
      if (isUsable && access.isCurrent(cached.request.caller)) return cached.request;
      const caller = callerOf(target);
      // The full path asks again, and reports the error.
      if (caller instanceof Promise) return caller.then(ignore);
      const chosen = choose(request, target, caller);
      if (chosen instanceof Promise) return chosen.then(ignore);
      const { ref, untilMs, isForAnyPath } = chosen;
      admission.requireConnection(caller, ref);
      const made: CallRequest = {
        key: target.key,
        caller,
        ref,
        alias: undefined,
        mcpIntegration: undefined,
        options: requestedOptions(request),
        slot: undefined,
      };
      if (memo !== undefined && isForAnyPath) known.keep(memo, { target, untilMs, request: made });
      return made;
    },
  };
}

const ignore = () => {};

/** A request may name its connection itself, as on `/proxy`. */
function namedIn(request: FrontHead): ProxyConnectionName | undefined {
  const integration = headerOf(request, "provider-config-key") ?? "";
  const id = headerOf(request, "connection-id") ?? "";
  return integration === "" && id === "" ? undefined : { integration, id };
}

const pathOf = ({ url = "" }: FrontHead): string => url.replace(/^https?:\/\/[^/?#]*/i, "");
