import type { Socket } from "node:net";
import { createRecentCache } from "../base/recent-cache.ts";
import { createTunnels } from "./client/tunnels.ts";
import { failureOf } from "./dial.ts";
import type { Egress } from "./egress.ts";
import type { Exchange, UpstreamRequest } from "./exchange.ts";
import type { ResponseReceiver } from "./http1/connection.ts";
import { createKeptConnections } from "./http1/kept-connections.ts";
import { createHeadReader, type Notable } from "./http1/response-head.ts";
import { createProviderSessions } from "./http2/sessions.ts";
import type { OriginLimits } from "./limits.ts";
import { finishTurn } from "./node/batching.ts";
import { type AdmittedOrigin, authorityOf, type Origin } from "./origin.ts";
import { PendingRequest, type Routes } from "./pending-request.ts";
import { createPools, poolKey } from "./pools.ts";

/** The half of the relay that faces providers: requests in, answers out, over connections that are kept. */
export interface Upstream {
  /** The origin to send to, in place of this one. Throws `RelayFailure` for one that is none to go to. */
  admit(origin: Origin): AdmittedOrigin;
  /** To an admitted origin. Throws `RelayFailure` when too many wait for it; all else is told to the receiver. */
  send(request: UpstreamRequest, receiver: ResponseReceiver): Exchange;
  /**
   * A connection of one's own to an admitted origin, for what does not end with an answer: a tunnel. Rejects with
   * `RelayFailure`; when it resolves, the socket stands and is the caller's.
   */
  open(origin: AdmittedOrigin, signal: AbortSignal): Promise<Socket>;
  /** For metrics. */
  counts(): UpstreamCounts;
  /** Ends connections that carry nothing. */
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
  /** PEM: trusted beside the usual authorities. */
  readonly extraCa: string | undefined;
  /** What of an answer whoever hands it on has rules for. */
  readonly notable?: Notable;
  /** With each sweep: for metrics. */
  readonly onCounts?: (counts: UpstreamCounts) => void;
}

const mostRemembered = 1_024;
/** One look at everything, in place of a timer for each request. */
const sweepEveryMs = 250;

/** Without TLS nothing is offered: there, only who must speak HTTP/2 does. */
const goesOverHttp2 = ({ protocol, origin }: UpstreamRequest): boolean =>
  protocol === "http2" || (protocol === "any" && origin.scheme === "https");

export function createUpstream(options: UpstreamOptions): Upstream {
  const { egress, limits, extraCa, notable = { names: [], prefix: "" }, onCounts = () => {} } = options;
  const clock = { nowMs: performance.now() };
  /** One for all that go there: a thousand connections to one provider hold none each. */
  const admitted = createRecentCache<AdmittedOrigin>(mostRemembered);
  const pools = createPools(extraCa);
  const tunnels = createTunnels({ pools, egress, limits });
  const sessions = createProviderSessions({
    egress,
    limits,
    clock,
    secureContextOf: (origin) => pools.of(origin).secureContext,
  });
  const connections = createKeptConnections({
    ...{ pools, egress, limits, readHead: createHeadReader(notable), clock },
    onHttp2: (going) => orTell(going, () => sessions.carry(going)),
  });
  const routes: Routes = {
    giveUp(going) {
      going.wasGiven = going.mayHaveArrived;
      if (!connections.giveUp(going)) sessions.giveUp(going);
    },
    fallBack(going) {
      const pool = pools.of(going.request.origin);
      pool.wantsHttp2 = false;
      orTell(going, () => connections.carry(pool, going));
    },
  };
  // What came while the process stood still, as it does where it is frozen, is read before it is found too late; and
  // what begins by then, begins now.
  const sweeping = setInterval(() => {
    clock.nowMs = performance.now();
    setImmediate(sweep);
  }, sweepEveryMs);
  sweeping.unref();

  /** Of a request that is under way: there is nobody to throw to, and somebody waits to be told. */
  function orTell(going: PendingRequest, send: () => void): void {
    try {
      send();
    } catch (error) {
      going.receiver.onFailure(failureOf(error as Error, false));
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
    finishTurn();
    onCounts(counts());
    sessions.sweep();
    connections.sweep();
    pools.forgetUnused(clock.nowMs);
  }

  return {
    admit(asked) {
      const origin = egress.admit(asked);
      const key = poolKey(origin);
      const known = admitted.get(key);
      if (known !== undefined) return known;
      const made = { ...origin, key, authority: authorityOf(origin) };
      // Nobody's private key is remembered here.
      if (origin.clientCertificate === undefined) admitted.set(key, made);
      return made;
    },
    open: tunnels.open,
    send(request, receiver) {
      const pool = pools.of(request.origin);
      const going = new PendingRequest(request, receiver, routes);
      if (pool.wantsHttp2 || goesOverHttp2(request)) sessions.carry(going);
      else connections.carry(pool, going);
      return going;
    },
    counts,
    drain() {
      finishTurn();
      sessions.drain();
      connections.drain();
    },
    destroy() {
      clearInterval(sweeping);
      this.drain();
      sessions.destroy();
      connections.destroy();
      tunnels.destroy();
    },
  };
}
