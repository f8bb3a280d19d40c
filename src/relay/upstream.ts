import type { Socket } from "node:net";
import { createRecentCache } from "../base/caches/recent-cache.ts";
import { createAdaptiveBeat } from "../base/loop/adaptive-beat.ts";
import { finishTick } from "./batching.ts";
import { createTunnels } from "./client/tunnels.ts";
import { failureOf } from "./dial-failure.ts";
import type { Egress } from "./egress.ts";
import type { Exchange, UpstreamRequest } from "./exchange.ts";
import { createKeptConnections } from "./http1/kept-connections.ts";
import { createHeadReader, type Notable } from "./http1/response-head.ts";
import { createProviderSessions } from "./http2/sessions.ts";
import type { OriginLimits } from "./limits.ts";
import { type AdmittedOrigin, authorityOf, type Origin } from "./origin.ts";
import { PendingRequest, type Routes } from "./pending-request.ts";
import { createPools, poolKey } from "./pools.ts";
import type { ResponseReceiver } from "./response-receiver.ts";

/** The provider side of the relay: requests out, responses in, over pooled connections. */
export interface Upstream {
  /** Returns the origin to send to instead of the given one. Throws `RelayFailure` for a forbidden origin. */
  admit(origin: Origin): AdmittedOrigin;
  /**
   * Sends to an admitted origin. Throws `RelayFailure` when too many requests wait for the origin; other failures go
   * to the receiver.
   */
  send(request: UpstreamRequest, receiver: ResponseReceiver): Exchange;
  /**
   * Opens a dedicated connection to an admitted origin, for a tunnel. Rejects with `RelayFailure`. A resolved socket
   * is connected and belongs to the caller.
   */
  open(origin: AdmittedOrigin, signal: AbortSignal): Promise<Socket>;
  /** Counts for metrics. */
  counts(): UpstreamCounts;
  /** Closes idle connections. */
  drain(): void;
  destroy(): void;
}

export interface UpstreamCounts {
  readonly connections: number;
  readonly idle: number;
  readonly waiting: number;
}

export type UpstreamLimits = OriginLimits;

interface UpstreamOptions {
  readonly egress: Egress;
  readonly limits: UpstreamLimits;
  /** PEM, trusted in addition to the usual authorities. */
  readonly extraCa: string | undefined;
  /** Response headers that the proxy must inspect; the rest pass unread. */
  readonly notable?: Notable;
  /** Called at each sweep: for metrics. */
  readonly onCounts?: (counts: UpstreamCounts) => void;
}

const mostRemembered = 1_024;
/** A scan replaces a timer for each request. */
const sweepEveryMs = 250;
/** Without connections. */
const restMs = 1_000;

/** Without TLS there is no ALPN: only requests that require HTTP/2 use HTTP/2 there. */
const goesOverHttp2 = ({ protocol, origin }: UpstreamRequest): boolean =>
  protocol === "http2" || (protocol === "any" && origin.scheme === "https");

export function createUpstream(options: UpstreamOptions): Upstream {
  const { egress, limits, extraCa, notable = { names: [], prefix: "" }, onCounts = () => {} } = options;
  const clock = { nowMs: performance.now() };
  /** Cache for all origins, so that a thousand connections to a provider share an entry. */
  const admitted = createRecentCache<AdmittedOrigin>(mostRemembered);
  const pools = createPools((origin) => [extraCa, egress.routeTo(origin)?.proxy.interceptCa]);
  const tunnels = createTunnels({ pools, egress, limits });
  const sessions = createProviderSessions({
    egress,
    limits,
    clock,
    secureContextOf: (origin) => pools.of(origin).secureContext,
  });
  const connections = createKeptConnections({
    pools,
    egress,
    limits,
    readHead: createHeadReader(notable),
    clock,
    onHttp2: (pending) => orFail(pending, () => sessions.carry(pending)),
  });
  const routes: Routes = {
    giveUp(pending) {
      pending.wasGiven = pending.mayHaveArrived;
      if (!connections.giveUp(pending)) sessions.giveUp(pending);
    },
    fallBack(pending) {
      const pool = pools.of(pending.request.origin);
      pool.wantsHttp2 = false;
      orFail(pending, () => connections.carry(pool, pending));
    },
  };
  // Bytes that arrived while the process was frozen are read before the request can be found too late. Requests that
  // begin before the sweep start at the new time.
  const beat = createAdaptiveBeat({
    busyMs: sweepEveryMs,
    restMs,
    run() {
      clock.nowMs = performance.now();
      setImmediate(sweep);
      const { connections: open, waiting } = counts();
      return open + waiting > 0;
    },
  });

  /** A request begins after a rest: the clock is old. */
  function endRest(): void {
    clock.nowMs = performance.now();
    beat.quicken();
  }

  /** Reports an error to the receiver of a request in progress: there is no caller to throw to. */
  function orFail(pending: PendingRequest, send: () => void): void {
    try {
      send();
    } catch (error) {
      pending.receiver.onFailure(failureOf(error as Error, false));
    }
  }

  function counts(): UpstreamCounts {
    const kept = connections.counts();
    const streamed = sessions.counts();
    const idle = kept.idle + streamed.idle;
    return {
      connections: kept.carrying + streamed.carrying + idle,
      idle,
      waiting: kept.waiting + streamed.waiting,
    };
  }

  function sweep(): void {
    finishTick();
    onCounts(counts());
    sessions.sweep();
    connections.sweep();
    pools.forgetUnused(clock.nowMs);
  }

  return {
    admit(address) {
      const origin = egress.admit(address);
      const key = poolKey(origin);
      const known = admitted.get(key);
      if (known !== undefined) return known;
      const made = { ...origin, key, authority: authorityOf(origin) };
      // Never cache a private key.
      if (origin.clientCertificate === undefined) admitted.set(key, made);
      return made;
    },
    open: tunnels.open,
    send(request, receiver) {
      if (!beat.isQuick) endRest();
      const pool = pools.of(request.origin);
      const pending = new PendingRequest(request, receiver, routes);
      if (pool.wantsHttp2 || goesOverHttp2(request)) sessions.carry(pending);
      else connections.carry(pool, pending);
      return pending;
    },
    counts,
    drain() {
      finishTick();
      sessions.drain();
      connections.drain();
    },
    destroy() {
      beat.stop();
      this.drain();
      sessions.destroy();
      connections.destroy();
      tunnels.destroy();
    },
  };
}
