import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { dial } from "../dial.ts";
import type { Egress } from "../egress.ts";
import { endedByProvider, type RelayFailure } from "../failure.ts";
import type { SweepClock } from "../limits.ts";
import { type Http2ProviderSession, noHttp2, openProviderSession, readSession } from "./session.ts";
import type { SessionPool } from "./session-pools.ts";
import type { RefusedStream, StreamExchange } from "./stream-exchange.ts";

/** Opens the sessions that the waiting requests of a pool need. */
export interface SessionDialer {
  /** Begins a connection, if the waiting requests need more sessions than are open or to come. */
  dialMore(pool: SessionPool): void;
  /** The origin does not offer HTTP/2 at present. */
  noteNoHttp2(pool: SessionPool): void;
}

/** A stream that is over: complete, or refused by the provider without a response. */
export interface EndedStream {
  readonly pool: SessionPool;
  readonly session: Http2ProviderSession;
  readonly exchange: StreamExchange;
  readonly unanswered: RefusedStream | undefined;
}

interface SessionDialerOptions {
  readonly egress: Egress;
  readonly clock: SweepClock;
  /** Called when the pool may have room for waiting requests. */
  readonly takeNext: (pool: SessionPool) => void;
  /** Called when a stream is over. Returns whether its request continues elsewhere. */
  readonly over: (ended: EndedStream) => boolean;
}

/** Stream limit of most providers. */
const usualStreams = 100;
/** Limits the sessions of an origin. A provider that accepts few streams gets more sessions. */
const maxSessions = 8;
/** After an origin has not offered HTTP/2, it is not asked again for this long. */
const noHttp2ForMs = 60_000;
/** Read buffer of all sessions: what a read brings is given on or copied before the next read. */
const shared = Buffer.allocUnsafeSlow(64 * 1024);

export function createSessionDialer({ egress, clock, takeNext, over }: SessionDialerOptions): SessionDialer {
  function connect(pool: SessionPool): void {
    const { origin, secureContext, ticket } = pool;
    let session: Http2ProviderSession | undefined;
    const onread = {
      buffer: shared,
      callback(length: number, buffer: Uint8Array) {
        if (session !== undefined) readSession(session, Buffer.from(buffer.buffer, buffer.byteOffset, length));
        return true;
      },
    };
    const opening = dial(
      egress,
      { origin, secureContext, session: ticket, protocols: ["h2", "http/1.1"], onread },
      {
        onTicket(given) {
          pool.ticket = given;
        },
        onFailed(failure) {
          pool.dialling.delete(opening);
          failIfAlone(pool, failure);
        },
        onReady(socket) {
          pool.dialling.delete(opening);
          session = connected(pool, socket);
        },
      },
    );
    pool.dialling.set(opening, clock.nowMs);
  }

  function connected(pool: SessionPool, socket: Socket): Http2ProviderSession | undefined {
    const { origin } = pool;
    if (!(socket instanceof TLSSocket) || origin.scheme === "http" || socket.alpnProtocol === "h2") {
      return open(pool, socket);
    }
    socket.on("error", () => {}).destroy();
    noteNoHttp2(pool);
    for (const pending of pool.waiting.splice(0)) {
      if (pending.request.protocol === "http2") pending.receiver.onFailure(noHttp2(origin));
      else pending.fallBack();
    }
    return undefined;
  }

  function open(pool: SessionPool, socket: Socket): Http2ProviderSession {
    const session = openProviderSession({
      origin: pool.origin,
      socket,
      nowMs: clock.nowMs,
      over: (on, exchange, unanswered) => over({ pool, session: on, exchange, unanswered }),
      onSettings: () => takeNext(pool),
      onClosed(closed) {
        pool.sessions.delete(closed);
        // A session that closes before it carried a stream fails the queue. Otherwise Latchkey would reconnect until
        // the wait times out.
        if (!closed.hasCarried) failIfAlone(pool, closed.failure ?? endedByProvider());
        takeNext(pool);
      },
    });
    pool.sessions.add(session);
    return session;
  }

  function noteNoHttp2(pool: SessionPool): void {
    pool.noHttp2Until = clock.nowMs + noHttp2ForMs;
  }

  return {
    dialMore(pool) {
      const { sessions, dialling, waiting } = pool;
      const open = [...sessions].filter(({ isLeaving }) => !isLeaving).length;
      const toCome = dialling.size + [...sessions].filter(({ hasSpoken }) => !hasSpoken).length;
      if (waiting.length > toCome * usualStreams && open + dialling.size < maxSessions) connect(pool);
    },
    noteNoHttp2,
  };
}

/**
 * A session could not be opened. If it was the only one, fail the queued requests; otherwise another session may
 * have room.
 */
function failIfAlone({ sessions, dialling, waiting }: SessionPool, failure: RelayFailure): void {
  if (sessions.size + dialling.size > 0) return;
  for (const pending of waiting.splice(0)) pending.receiver.onFailure(failure);
}
