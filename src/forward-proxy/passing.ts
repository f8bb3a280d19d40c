import type { Socket } from "node:net";
import type { Metrics } from "../base/metrics/metrics.ts";
import type { Access } from "../broker/setup/access.ts";
import { type Caller, requireAudience, spendRequest } from "../broker/setup/caller.ts";
import { createCallerStreams } from "../data-plane/proxy/caller-streams.ts";
import { faultOfPreparing } from "../data-plane/proxy/relay-fault.ts";
import { callerOriginOf } from "../data-plane/server/caller-origin.ts";
import type { ConnectCall } from "../data-plane/server/forward-traffic.ts";
import type { Upstream } from "../relay/upstream.ts";
import { beginTunnel } from "./connect-answers.ts";
import type { ConnectTarget } from "./connect-target.ts";
import { mayPassOn } from "./host-admission.ts";
import { joinTunnel, openRawTunnel } from "./raw-tunnel.ts";

/** Passes a tunnel on without looking inside. Rejects if it is not opened. */
export type PassOn = (call: ConnectCall, place: ConnectTarget, caller: Caller) => Promise<void>;

interface PassingOptions {
  readonly access: Pick<Access, "currentCaller">;
  readonly upstream: Pick<Upstream, "admit" | "open">;
  readonly metrics: Metrics;
}

const tunnelListeners = 30;

export function createPassing({ access, upstream, metrics }: PassingOptions): PassOn {
  const streams = createCallerStreams(access);

  /** Cuts the tunnel once the caller may not have it any more. */
  function follow(caller: Caller, socket: Socket, place: ConnectTarget): void {
    if (socket.destroyed) return;
    const isWithin = (now: Caller) => now.environment === caller.environment && mayPassOn(now, place);
    streams.add(socket, { caller, isWithin, cut: () => socket.destroy() });
    socket.once("close", () => streams.delete(socket));
  }

  return async (call, place, caller) => {
    const { socket, listener } = call;
    const leaving = new AbortController();
    socket.once("close", () => leaving.abort());
    // The requests inside are not seen: the tunnel itself is what an access session is checked and counted for.
    requireAudience(caller, callerOriginOf({ socket }, listener));
    await spendRequest(caller);
    // Two pipelines listen, beside those that the socket already has.
    socket.setMaxListeners(tunnelListeners);
    let there: Socket;
    try {
      there = await openRawTunnel(upstream, place, leaving.signal);
    } catch (error) {
      throw faultOfPreparing(error);
    }
    beginTunnel(call, "passed_on", metrics);
    const onMismatch = () => metrics.forwardHandshakes.inc({ reason: "name" });
    joinTunnel({ socket, there, host: place.host, onMismatch });
    follow(caller, socket, place);
  };
}
