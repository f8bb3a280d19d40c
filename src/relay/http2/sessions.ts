import type { SecureContext } from "node:tls";
import type { Egress } from "../egress.ts";
import { overloaded, RelayFailure } from "../failure.ts";
import type { OriginLimits, SweepClock } from "../limits.ts";
import type { AdmittedOrigin } from "../origin.ts";
import { closeSession, type Http2ProviderSession, noHttp2 } from "./session.ts";
import { createSessionDialer, type EndedStream } from "./session-dialer.ts";
import { createSessionPools, type SessionCounts, type SessionPool, sessionWithRoom } from "./session-pools.ts";
import { type RefusedStream, StreamExchange } from "./stream-exchange.ts";
import type { StreamedRequest } from "./streamed-request.ts";
import { errorCodes } from "./wire/error-codes.ts";

/** HTTP/2 sessions to providers: many requests share a session, by origin (and client certificate). */
export interface ProviderSessions {
  /** Sends the request now, or once a session has room. Throws `RelayFailure` when too many requests wait. */
  carry(pending: StreamedRequest): void;
  /** The request no longer waits. */
  giveUp(pending: StreamedRequest): void;
  counts(): SessionCounts;
  sweep(): void;
  /** Closes idle sessions. */
  drain(): void;
  destroy(): void;
}

interface ProviderSessionsOptions {
  readonly egress: Egress;
  readonly limits: OriginLimits;
  readonly clock: SweepClock;
  readonly secureContextOf: (origin: AdmittedOrigin) => SecureContext | undefined;
}

export function createProviderSessions(options: ProviderSessionsOptions): ProviderSessions {
  const { egress, limits, clock, secureContextOf } = options;
  const pools = createSessionPools({ limits, clock, secureContextOf });
  const dialer = createSessionDialer({ egress, clock, takeNext, over });

  /**
   * The queue is not checked for its limit here: new requests are refused in `carry`, queued ones continue in order.
   */
  function takeNext(pool: SessionPool): void {
    while (pool.waiting.length > 0 && pool.carrying < limits.perOrigin) {
      const session = sessionWithRoom(pool);
      if (session === undefined) {
        dialer.dialMore(pool);
        return;
      }
      const next = pool.waiting.shift();
      if (next !== undefined) begin(pool, session, next);
    }
  }

  function begin(pool: SessionPool, session: Http2ProviderSession, pending: StreamedRequest): void {
    let exchange: StreamExchange;
    try {
      exchange = new StreamExchange({ session: session.wire, pending, carrying: session.carrying, nowMs: clock.nowMs });
    } catch (cause) {
      pending.receiver.onFailure(
        new RelayFailure("malformed", "the request's headers cannot be sent over HTTP/2", { cause }),
      );
      return;
    }
    pool.carrying += 1;
    pool.usedAt = clock.nowMs;
    // The new stream starts the silence timer; earlier silence does not count.
    if (session.streams.size === 0) session.heardAt = performance.now();
    session.hasCarried = true;
    session.streams.add(exchange);
    pending.continueOver(exchange);
  }

  function over(ended: EndedStream): boolean {
    const { pool, session, exchange, unanswered } = ended;
    if (!session.streams.delete(exchange)) return false;
    pool.carrying -= 1;
    session.idleSince = performance.now();
    const { pending } = exchange;
    const isContinued = unanswered !== undefined && startOver(ended, pending, unanswered);
    if (unanswered === undefined) session.isReused = true;
    const isLast = session.streams.size === 0 && (pools.isDraining || session.isLeaving);
    if (isLast) closeSession(session, errorCodes.noError);
    takeNext(pool);
    return isContinued;
  }

  function startOver({ pool, session }: EndedStream, pending: StreamedRequest, refused: RefusedStream): boolean {
    if (refused.code === errorCodes.http11Required && pending.request.protocol !== "http2" && pending.startOver(true)) {
      dialer.noteNoHttp2(pool);
      pending.fallBack();
      return true;
    }
    if (!canStartOver(session, pending, refused)) return false;
    if (session.failure !== undefined || session.wire.isClosed) session.isLeaving = true;
    enqueue(pool, pending);
    return true;
  }

  function enqueue(pool: SessionPool, pending: StreamedRequest): void {
    pending.waitingSince = clock.nowMs;
    pool.waiting.push(pending);
    takeNext(pool);
  }

  return {
    carry(pending) {
      const { origin, protocol } = pending.request;
      const pool = pools.of(origin);
      if (pool.noHttp2Until > clock.nowMs && origin.scheme === "https") {
        if (protocol === "http2") throw noHttp2(origin);
        pending.fallBack();
        return;
      }
      const session = pool.waiting.length === 0 && pool.carrying < limits.perOrigin ? sessionWithRoom(pool) : undefined;
      if (session !== undefined) begin(pool, session, pending);
      else if (pool.waiting.length < limits.waitingPerOrigin) enqueue(pool, pending);
      else throw overloaded(origin);
    },
    giveUp(pending) {
      const { waiting } = pools.of(pending.request.origin);
      const at = waiting.indexOf(pending);
      if (at !== -1) waiting.splice(at, 1);
    },
    counts: pools.counts,
    sweep: pools.sweep,
    drain: pools.drain,
    destroy: pools.destroy,
  };
}

/** Reports whether a request without a response may be sent again, and prepares the request for that. */
function canStartOver(
  session: Http2ProviderSession,
  pending: StreamedRequest,
  { streamId, code }: RefusedStream,
): boolean {
  const isUnprocessed = streamId === undefined || code === errorCodes.refusedStream || streamId > session.lastStreamId;
  // The provider may have already closed an idle session.
  const isStale = session.isReused && session.failure?.kind === "closed";
  return (isUnprocessed || isStale) && pending.startOver(isUnprocessed);
}
