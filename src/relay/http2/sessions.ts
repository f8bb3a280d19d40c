import { constants } from "node:http2";
import type { Socket } from "node:net";
import type { SecureContext, TLSSocket } from "node:tls";
import { connectedEvent, dial, failureOf } from "../dial.ts";
import type { Egress } from "../egress.ts";
import { endedByProvider, noConnection, overloaded, RelayFailure } from "../failure.ts";
import type { OriginLimits, SweepClock } from "../limits.ts";
import type { AdmittedOrigin } from "../origin.ts";
import {
  type Http2ProviderSession,
  hasRoom,
  noHttp2,
  openProviderSession,
  type StreamedRequest,
  sweepSession,
} from "./session.ts";
import { type RefusedStream, StreamExchange } from "./stream-exchange.ts";

/** HTTP/2 sessions to providers: many requests share a session, by origin (and client certificate). */
export interface ProviderSessions {
  /** Sends the request now, or once a session has room. Throws `RelayFailure` when too many requests wait. */
  carry(going: StreamedRequest): void;
  /** The request no longer waits. */
  giveUp(going: StreamedRequest): void;
  counts(): SessionCounts;
  sweep(): void;
  /** Closes idle sessions. */
  drain(): void;
  destroy(): void;
}

export interface SessionCounts {
  readonly carrying: number;
  readonly idle: number;
  readonly waiting: number;
}

interface ProviderSessionsOptions {
  readonly egress: Egress;
  readonly limits: OriginLimits;
  readonly clock: SweepClock;
  readonly secureContextOf: (origin: AdmittedOrigin) => SecureContext | undefined;
}

/** Stream limit of most providers. */
const usualStreams = 100;
/** Limits the sessions of an origin. A provider that accepts few streams gets more sessions. */
const maxSessions = 8;
/** After an origin has not offered HTTP/2, it is not asked again for this long. */
const noHttp2ForMs = 60_000;
const forgetAfterMs = 600_000;

const { NGHTTP2_REFUSED_STREAM, NGHTTP2_HTTP_1_1_REQUIRED } = constants;

interface SessionPool {
  readonly origin: AdmittedOrigin;
  readonly secureContext: SecureContext | undefined;
  readonly sessions: Set<Http2ProviderSession>;
  readonly dialling: Map<Socket, number>;
  readonly waiting: StreamedRequest[];
  ticket: Buffer | undefined;
  carrying: number;
  noHttp2Until: number;
  usedAt: number;
}

export function createProviderSessions({
  egress,
  limits,
  clock,
  secureContextOf,
}: ProviderSessionsOptions): ProviderSessions {
  const pools = new Map<string, SessionPool>();
  let isDraining = false;

  function poolFor(origin: AdmittedOrigin): SessionPool {
    const known = pools.get(origin.key);
    if (known !== undefined) return known;
    const pool: SessionPool = {
      origin,
      secureContext: secureContextOf(origin),
      sessions: new Set(),
      dialling: new Map(),
      waiting: [],
      ticket: undefined,
      carrying: 0,
      noHttp2Until: 0,
      usedAt: clock.nowMs,
    };
    pools.set(origin.key, pool);
    return pool;
  }

  /**
   * The queue is not checked for its limit here: new requests are refused in `carry`, queued ones continue in order.
   */
  function takeNext(pool: SessionPool): void {
    while (pool.waiting.length > 0 && pool.carrying < limits.perOrigin) {
      const session = roomIn(pool);
      if (session === undefined) {
        dialMore(pool);
        return;
      }
      const next = pool.waiting.shift();
      if (next !== undefined) begin(pool, session, next);
    }
  }

  function begin(pool: SessionPool, session: Http2ProviderSession, going: StreamedRequest): void {
    const { request, receiver } = going;
    let exchange: StreamExchange;
    try {
      exchange = new StreamExchange({ session: session.http2, request, receiver, carrying: session.carrying });
    } catch (cause) {
      receiver.onFailure(new RelayFailure("malformed", "the head of the request cannot go over HTTP/2", { cause }));
      return;
    }
    pool.carrying += 1;
    pool.usedAt = clock.nowMs;
    // The new stream starts the silence timer; earlier silence does not count.
    if (session.streams.size === 0) session.heardAt = performance.now();
    session.hasCarried = true;
    session.streams.set(exchange, { going, activity: -1, since: clock.nowMs });
    going.goOver(exchange);
  }

  function dialMore(pool: SessionPool): void {
    const open = [...pool.sessions].filter(({ isLeaving }) => !isLeaving).length;
    const toCome = pool.dialling.size + [...pool.sessions].filter(({ hasSpoken }) => !hasSpoken).length;
    if (pool.waiting.length > toCome * usualStreams && open + pool.dialling.size < maxSessions) connect(pool);
  }

  function connect(pool: SessionPool): void {
    const { origin, secureContext, ticket } = pool;
    const socket = dial({ origin, egress, secureContext, session: ticket, protocols: ["h2", "http/1.1"] });
    pool.dialling.set(socket, clock.nowMs);
    if (origin.scheme === "https") {
      socket.on("session", (given: Buffer) => {
        pool.ticket = given;
      });
    }
    let failure: RelayFailure | undefined;
    const onError = (error: Error) => {
      failure ??= failureOf(error, false);
    };
    const onClose = () => {
      pool.dialling.delete(socket);
      noSession(pool, failure);
    };
    socket.on("error", onError).once("close", onClose);
    socket.once(connectedEvent(origin), () => {
      socket.off("error", onError).off("close", onClose);
      pool.dialling.delete(socket);
      if (origin.scheme === "http" || (socket as TLSSocket).alpnProtocol === "h2") {
        open(pool, socket);
        return;
      }
      socket.on("error", () => {}).destroy();
      withoutHttp2(pool);
    });
  }

  /**
   * A session could not be opened. If it was the only one, fail the queued requests; otherwise another session may
   * have room.
   */
  function noSession(pool: SessionPool, failure: RelayFailure | undefined): void {
    if (pool.sessions.size + pool.dialling.size > 0) return;
    const why = failure ?? endedByProvider();
    for (const going of pool.waiting.splice(0)) going.receiver.onFailure(why);
  }

  function withoutHttp2(pool: SessionPool): void {
    pool.noHttp2Until = clock.nowMs + noHttp2ForMs;
    for (const going of pool.waiting.splice(0)) elsewhere(going);
  }

  function elsewhere(going: StreamedRequest): void {
    if (going.request.protocol === "http2") going.receiver.onFailure(noHttp2(going.request.origin));
    else going.fallBack();
  }

  function open(pool: SessionPool, socket: Socket): void {
    const session = openProviderSession({
      ...{ origin: pool.origin, socket, nowMs: clock.nowMs },
      over: (on, exchange, unanswered) => over({ pool, session: on, exchange, unanswered }),
      onSettings: () => takeNext(pool),
      onClosed(closed) {
        pool.sessions.delete(closed);
        // A session that closes before it carried a stream fails the queue. Otherwise Latchkey would reconnect until
        // the wait times out.
        if (!closed.hasCarried) noSession(pool, closed.failure);
        takeNext(pool);
      },
    });
    pool.sessions.add(session);
  }

  interface Over {
    readonly pool: SessionPool;
    readonly session: Http2ProviderSession;
    readonly exchange: StreamExchange;
    readonly unanswered: RefusedStream | undefined;
  }

  function over({ pool, session, exchange, unanswered }: Over): boolean {
    const watched = session.streams.get(exchange);
    if (watched === undefined) return false;
    session.streams.delete(exchange);
    pool.carrying -= 1;
    session.idleSince = performance.now();
    const { going } = watched;
    const goesOn = unanswered !== undefined && startOver(pool, session, going, unanswered);
    if (unanswered === undefined) session.isReused = true;
    if (isDraining && session.streams.size === 0) session.http2.close();
    takeNext(pool);
    return goesOn;
  }

  function startOver(
    pool: SessionPool,
    session: Http2ProviderSession,
    going: StreamedRequest,
    { streamId, code }: RefusedStream,
  ): boolean {
    if (code === NGHTTP2_HTTP_1_1_REQUIRED && going.request.protocol !== "http2" && going.startOver(true)) {
      pool.noHttp2Until = clock.nowMs + noHttp2ForMs;
      going.fallBack();
      return true;
    }
    const isUnprocessed = streamId === undefined || code === NGHTTP2_REFUSED_STREAM || streamId > session.lastStreamId;
    // The provider may have already closed an idle session.
    const isStale = session.isReused && session.failure?.kind === "closed";
    if (!((isUnprocessed || isStale) && going.startOver(isUnprocessed))) return false;
    if (session.failure !== undefined || session.http2.closed) session.isLeaving = true;
    place(pool, going);
    return true;
  }

  /** Queues the request and starts the queue. */
  function place(pool: SessionPool, going: StreamedRequest): void {
    going.waitingSince = clock.nowMs;
    pool.waiting.push(going);
    takeNext(pool);
  }

  return {
    carry(going) {
      const { origin, protocol } = going.request;
      const pool = poolFor(origin);
      if (pool.noHttp2Until > clock.nowMs && origin.scheme === "https") {
        if (protocol === "http2") throw noHttp2(origin);
        going.fallBack();
        return;
      }
      const session = pool.waiting.length === 0 && pool.carrying < limits.perOrigin ? roomIn(pool) : undefined;
      if (session !== undefined) begin(pool, session, going);
      else if (pool.waiting.length < limits.waitingPerOrigin) place(pool, going);
      else throw overloaded(origin);
    },
    giveUp(going) {
      const { waiting } = poolFor(going.request.origin);
      const at = waiting.indexOf(going);
      if (at !== -1) waiting.splice(at, 1);
    },
    counts() {
      let carrying = 0;
      let idle = 0;
      let waiting = 0;
      for (const pool of pools.values()) {
        for (const { streams } of pool.sessions) {
          if (streams.size > 0) carrying += 1;
          else idle += 1;
        }
        waiting += pool.waiting.length;
      }
      return { carrying, idle, waiting };
    },
    sweep() {
      for (const [key, pool] of pools) {
        for (const [socket, since] of pool.dialling) {
          if (clock.nowMs - since > limits.connectMs) socket.destroy(noConnection());
        }
        for (const session of pool.sessions) sweepSession(session, { nowMs: clock.nowMs, isDraining, limits });
        while (pool.waiting[0] !== undefined && clock.nowMs - pool.waiting[0].waitingSince > limits.connectMs) {
          pool.waiting.shift()?.receiver.onFailure(pool.sessions.size === 0 ? noConnection() : overloaded(pool.origin));
        }
        const isUsed = pool.sessions.size + pool.dialling.size + pool.waiting.length > 0;
        if (isUsed) pool.usedAt = clock.nowMs;
        else if (clock.nowMs - pool.usedAt > forgetAfterMs) pools.delete(key);
      }
    },
    drain() {
      isDraining = true;
      for (const pool of pools.values()) {
        for (const { http2: own, streams } of pool.sessions) if (streams.size === 0) own.close();
      }
    },
    destroy() {
      for (const pool of pools.values()) {
        for (const session of pool.sessions) {
          session.failure ??= new RelayFailure("closed", "stopping");
          session.http2.destroy();
        }
        for (const socket of pool.dialling.keys()) socket.destroy();
      }
    },
  };
}

function roomIn({ sessions }: SessionPool): Http2ProviderSession | undefined {
  for (const session of sessions) if (hasRoom(session)) return session;
  return undefined;
}
