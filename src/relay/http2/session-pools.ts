import type { SecureContext } from "node:tls";
import type { Dial } from "../dialing.ts";
import { noConnection, overloaded, RelayFailure } from "../failure.ts";
import type { OriginLimits, SweepClock } from "../limits.ts";
import type { AdmittedOrigin } from "../origin.ts";
import { closeSession, type Http2ProviderSession, hasRoom, sweepSession } from "./session.ts";
import type { StreamedRequest } from "./streamed-request.ts";
import { errorCodes } from "./wire/error-codes.ts";

/** The HTTP/2 sessions of an origin (and client certificate), and the requests that wait for them. */
export interface SessionPool {
  readonly origin: AdmittedOrigin;
  readonly secureContext: SecureContext | undefined;
  readonly sessions: Set<Http2ProviderSession>;
  /** Connections that are being opened, with the time of their start. */
  readonly dialling: Map<Dial, number>;
  readonly waiting: StreamedRequest[];
  /** TLS session to resume. */
  ticket: Buffer | undefined;
  /** Number of requests under way. */
  carrying: number;
  /** The origin does not offer HTTP/2; it is not asked again until this time. */
  noHttp2Until: number;
  usedAt: number;
}

export interface SessionPools {
  of(origin: AdmittedOrigin): SessionPool;
  readonly isDraining: boolean;
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

interface SessionPoolsOptions {
  readonly limits: OriginLimits;
  readonly clock: SweepClock;
  readonly secureContextOf: (origin: AdmittedOrigin) => SecureContext | undefined;
}

const forgetAfterMs = 600_000;

export function createSessionPools({ limits, clock, secureContextOf }: SessionPoolsOptions): SessionPools {
  const pools = new Map<string, SessionPool>();
  let isDraining = false;

  function create(origin: AdmittedOrigin): SessionPool {
    return {
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
  }

  function sweepPool(pool: SessionPool): void {
    const { sessions, dialling, waiting, origin } = pool;
    for (const [opening, since] of dialling) {
      if (clock.nowMs - since > limits.connectMs) opening.giveUp(noConnection());
    }
    for (const session of sessions) sweepSession(session, { nowMs: clock.nowMs, isDraining, limits });
    while (waiting[0] !== undefined && clock.nowMs - waiting[0].waitingSince > limits.connectMs) {
      waiting.shift()?.receiver.onFailure(sessions.size === 0 ? noConnection() : overloaded(origin));
    }
    if (sessions.size + dialling.size + waiting.length > 0) pool.usedAt = clock.nowMs;
  }

  return {
    of(origin) {
      const known = pools.get(origin.key);
      if (known !== undefined) return known;
      const pool = create(origin);
      pools.set(origin.key, pool);
      return pool;
    },
    get isDraining() {
      return isDraining;
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
        sweepPool(pool);
        if (clock.nowMs - pool.usedAt > forgetAfterMs) pools.delete(key);
      }
    },
    drain() {
      isDraining = true;
      for (const { sessions } of pools.values()) {
        for (const session of sessions) if (session.streams.size === 0) closeSession(session, errorCodes.noError);
      }
    },
    destroy() {
      for (const { sessions, dialling } of pools.values()) {
        for (const session of sessions) {
          session.failure ??= new RelayFailure("closed", "stopping");
          session.socket.destroy();
        }
        for (const opening of dialling.keys()) opening.giveUp(new RelayFailure("closed", "stopping"));
      }
    },
  };
}

/** Returns a session that takes another stream. */
export function sessionWithRoom({ sessions }: SessionPool): Http2ProviderSession | undefined {
  for (const session of sessions) if (hasRoom(session)) return session;
  return undefined;
}
