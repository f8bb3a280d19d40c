import { LiveSet } from "../../base/live-set.ts";
import type { Access } from "../../broker/setup/access.ts";
import { type Caller, mayDo } from "../../broker/setup/caller.ts";
import { isGrpc } from "../../core/outgoing/grpc.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { ProviderCall } from "./provider-call.ts";
import type { NotableCall, ProxyCall } from "./proxy-call.ts";

/**
 * Cuts requests and tunnels that last longer than the permission of their caller: its key was revoked or has expired,
 * its access session has ended, its identity is not accepted any more, or its limits have become narrower.
 */
export interface CallerStreams {
  /** Follows a request until `leave`. */
  follow(call: ProxyCall): void;
  /** A request that opened a tunnel leaves with its tunnel. */
  leave(call: NotableCall): void;
  /** Follows a tunnel until `delete`. */
  add(tunnel: object, stream: CallerStream): void;
  delete(tunnel: object): void;
}

export interface CallerStream {
  readonly caller: Caller;
  /** Whether the caller, with what it may do now, may still have it. */
  readonly isWithin: (now: Caller) => boolean;
  readonly cut: () => void;
}

type SentCall = Pick<ProviderCall, "live" | "proxied" | "host" | "basePath">;

const everyMs = 250;
/** For so long, a request in progress may finish. */
const graceMs = 60_000;

/** Creates the cutter of streams, for all requests of a process. */
export function createCallerStreams(access: Pick<Access, "currentCaller">): CallerStreams {
  const calls = new LiveSet<ProxyCall>();
  const tunnels = new Map<object, CallerStream>();
  /** Since when calls have lost their permission. */
  const lostAtMs = new WeakMap<object, number>();
  let timer: NodeJS.Timeout | undefined;

  function isAllowed(caller: Caller, isWithin: (now: Caller) => boolean): boolean {
    // A page sends only requests that are over within half a minute.
    if (caller.session !== undefined) return true;
    const now = access.currentCaller(caller);
    return now === caller || (now !== undefined && isWithin(now));
  }

  function look(call: ProxyCall, nowMs: number): void {
    const ready = call.relayed?.ready;
    const caller = ready?.caller ?? call.named?.caller;
    if (caller === undefined || isAllowed(caller, (now) => ready === undefined || mayStillSend(now, caller, ready))) {
      return;
    }
    const since = lostAtMs.get(call) ?? nowMs;
    lostAtMs.set(call, since);
    // A gRPC call may be a stream.
    const cutsAtOnce = call.isEndless || isGrpc(call.context.request.headers["content-type"]);
    if (!cutsAtOnce && nowMs - since < graceMs) return;
    calls.delete(call);
    call.cut();
  }

  function sweep(): void {
    const nowMs = performance.now();
    for (const call of calls.now()) if (calls.has(call)) look(call, nowMs);
    for (const [tunnel, { caller, isWithin, cut }] of tunnels) {
      if (isAllowed(caller, isWithin)) continue;
      tunnels.delete(tunnel);
      cut();
    }
    if (calls.size + tunnels.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    follow(call) {
      calls.add(call);
      timer ??= setInterval(sweep, everyMs).unref();
    },
    add(tunnel, stream) {
      tunnels.set(tunnel, stream);
      timer ??= setInterval(sweep, everyMs).unref();
    },
    leave(call) {
      if (!calls.delete(call) && tunnels.size > 0) tunnels.delete(call);
    },
    delete(tunnel) {
      tunnels.delete(tunnel);
    },
  };
}

/** Returns whether a caller, with what it may do now, could send a request that it has sent before. */
export function mayStillSend(now: Caller, before: Caller, { live, proxied, host, basePath }: SentCall): boolean {
  const { limits } = now;
  const { ref } = live.connection;
  if (now.environment !== undefined && now.environment !== before.environment) return false;
  if (!mayDo(now, Scope.PROXY)) return false;
  if (limits === undefined) return true;
  const { method, path, rawHeaders } = proxied;
  const request = { method, host, basePath, path, rawHeaders };
  return ref !== undefined && limits.admitsConnection(ref) && limits.refusalOf(request) === undefined;
}
