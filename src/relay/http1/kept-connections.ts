import { wantsHttp2 } from "../dial-failure.ts";
import type { Egress } from "../egress.ts";
import type { UpstreamRequest } from "../exchange.ts";
import { noConnection, overloaded, RelayFailure } from "../failure.ts";
import { type OriginLimits, overdue, type SweepClock } from "../limits.ts";
import { isRepeatable, type PendingRequest } from "../pending-request.ts";
import type { Pool, Pools } from "../pools.ts";
import { createBulkBuffers } from "./bulk.ts";
import { Connection } from "./connection.ts";
import type { CarriedRequest, ConnectionOwner } from "./connection-owner.ts";
import type { ReadHead } from "./response-head.ts";

/** HTTP/1.1 connections to providers: each carries one request at a time, and is kept for the next. */
export interface KeptConnections {
  /** Sends the request now, or once another request has ended. Throws `RelayFailure` when too many requests wait. */
  carry(pool: Pool, pending: PendingRequest): void;
  /** The caller has left. Returns false if the request is neither carried nor queued here. */
  giveUp(pending: PendingRequest): boolean;
  counts(): KeptCounts;
  sweep(): void;
  /** Closes idle connections. */
  drain(): void;
  destroy(): void;
}

export interface KeptCounts {
  readonly carrying: number;
  readonly idle: number;
  readonly waiting: number;
}

interface KeptConnectionsOptions {
  readonly pools: Pools;
  readonly egress: Egress;
  readonly limits: OriginLimits;
  readonly readHead: ReadHead;
  readonly clock: SweepClock;
  /** The origin accepts only HTTP/2, and has received no part of the request. */
  readonly onHttp2: (pending: PendingRequest) => void;
}

type KeptConnectionOwner = ConnectionOwner<Connection<Pool>>;

/** Providers drop idle connections after a minute or two, without notice. */
const idleForMs = 30_000;
/** Close this much before the provider's timeout: a request could meet a connection that the provider is closing. */
const idleMarginMs = 1_000;
const maxIdlePerOrigin = 256;
/** No receiver sees this failure, and capturing a stack for each one would cost more than the rest of the close. */
const notNeeded = new RelayFailure("closed", "the connection is no longer needed");

export function createKeptConnections(options: KeptConnectionsOptions): KeptConnections {
  const { pools, egress, limits, readHead, clock, onHttp2 } = options;
  /** An array, where each connection knows its index: adding to and deleting from a set costs each request 0.2 µs. */
  const busy: Connection<Pool>[] = [];
  let isDraining = false;

  function dispatch(pool: Pool, pending: PendingRequest): void {
    pool.carrying += 1;
    const idle = idleFor(pool, pending.request);
    const connection = idle ?? new Connection(pool, owner);
    connection.at = busy.push(connection) - 1;
    connection.watch(clock.nowMs);
    pending.continueOn(connection);
    if (idle !== undefined && !pending.isSent) pending.receiver.onDrain();
  }

  const owner: KeptConnectionOwner = { egress, readHead, bulk: createBulkBuffers(), onIdle: keepIdle, onGone: gone };

  function keepIdle(connection: Connection<Pool>): void {
    const { pool } = connection;
    const forMs = idleTimeOf(connection);
    removeBusy(busy, connection);
    pool.carrying -= 1;
    if (isDraining || forMs <= 0 || pool.idle.length >= maxIdlePerOrigin) {
      connection.destroy(notNeeded);
    } else {
      connection.idleUntil = clock.nowMs + forMs;
      if (pool.origin.isApart === true) connection.idleSince = performance.now();
      pool.idle.push(connection);
    }
    takeNext(pool);
  }

  function gone(connection: Connection<Pool>, carried: CarriedRequest | undefined, failure: RelayFailure): void {
    const { pool } = connection;
    // Only pending requests are given to connections here.
    const unanswered = carried as PendingRequest | undefined;
    removeFrom(pool.idle, connection);
    if (removeBusy(busy, connection)) pool.carrying -= 1;
    if (unanswered !== undefined) {
      if (isRefusedHttp1(connection, failure)) {
        pool.wantsHttp2 = true;
        unanswered.connection = undefined;
        onHttp2(unanswered);
        return;
      }
      const { hasKeptBack } = connection;
      if (hasKeptBack || (mayBeStale(connection, failure) && isRepeatable(unanswered.request))) {
        unanswered.wasGiven ||= !hasKeptBack;
        // The other idle connections are probably closed as well: repeat on a new connection, which also limits the
        // repeats to one.
        closeIdle(pool, failure);
        dispatch(pool, unanswered);
        return;
      }
      failUnanswered(unanswered, connection, failure);
    }
    takeNext(pool);
  }

  function takeNext(pool: Pool): void {
    const next = pool.carrying < limits.perOrigin ? pool.waiting.shift() : undefined;
    if (next !== undefined) dispatch(pool, next);
  }

  return {
    carry(pool, pending) {
      if (pool.carrying < limits.perOrigin) {
        dispatch(pool, pending);
      } else if (pool.waiting.length < limits.waitingPerOrigin) {
        pending.waitingSince = clock.nowMs;
        pool.waiting.push(pending);
      } else {
        throw overloaded(pool.origin);
      }
    },
    giveUp(pending) {
      const { connection } = pending;
      pending.connection = undefined;
      if (connection !== undefined) {
        connection.abandon(pending);
        return true;
      }
      return removeFrom(pools.of(pending.request.origin).waiting, pending);
    },
    counts: () => countsOf(busy.length, pools.all()),
    sweep() {
      sweepBusy(busy, clock.nowMs, limits);
      for (const pool of pools.all()) sweepPool(pool, clock.nowMs, limits);
    },
    drain() {
      isDraining = true;
      for (const pool of pools.all()) closeIdle(pool, new RelayFailure("closed", "draining"));
    },
    destroy() {
      for (const connection of [...busy]) connection.destroy(new RelayFailure("closed", "stopping"));
    },
  };
}

/** Returns the connection that was used last, unless the request needs a new one. */
function idleFor({ idle }: Pool, { needsNew = false, idleAtMostMs }: UpstreamRequest): Connection<Pool> | undefined {
  if (needsNew) return undefined;
  // The owner learns a moment later that such a connection has closed.
  while (idle.at(-1)?.hasEnded === true) idle.pop();
  const last = idle.at(-1);
  if (last === undefined) return undefined;
  // The exact time: the sweep clock only advances at each sweep.
  if (idleAtMostMs !== undefined && performance.now() - last.idleSince > idleAtMostMs) return undefined;
  return idle.pop();
}

/** Returns how long the connection may stay idle. */
function idleTimeOf({ idleSeconds }: Connection<Pool>): number {
  return idleSeconds === undefined ? idleForMs : Math.min(idleForMs, idleSeconds * 1_000 - idleMarginMs);
}

/** Reports whether the origin accepts only HTTP/2, which it has not said before. */
const isRefusedHttp1 = ({ isConnecting, pool }: Connection<Pool>, failure: RelayFailure): boolean =>
  isConnecting && wantsHttp2(failure) && !pool.wantsHttp2;

/** Reports whether the provider may have closed the idle connection before the request came. */
const mayBeStale = ({ isReused }: Connection<Pool>, { kind }: RelayFailure): boolean => kind === "closed" && isReused;

function closeIdle({ idle }: Pool, failure: RelayFailure): void {
  for (const connection of idle.splice(0)) connection.destroy(failure);
}

function failUnanswered(unanswered: PendingRequest, connection: Connection<Pool>, failure: RelayFailure): void {
  unanswered.wasGiven ||= !connection.isConnecting;
  unanswered.connection = undefined;
  unanswered.receiver.onFailure(failure);
}

/** Returns whether the item was in the list. */
function removeFrom<T>(list: T[], item: T): boolean {
  const at = list.indexOf(item);
  if (at !== -1) list.splice(at, 1);
  return at !== -1;
}

/** Removes the connection from the busy list. Returns whether the connection was in the list. */
function removeBusy(busy: Connection<Pool>[], connection: Connection<Pool>): boolean {
  const { at } = connection;
  if (at === -1) return false;
  const last = busy.pop();
  if (last !== undefined && last !== connection) {
    busy[at] = last;
    last.at = at;
  }
  connection.at = -1;
  return true;
}

/** Fails requests without progress. */
function sweepBusy(busy: readonly Connection<Pool>[], nowMs: number, limits: OriginLimits): void {
  // A connection that is destroyed here leaves the list when its socket has closed.
  for (const connection of busy) {
    const forMs = connection.stillFor(nowMs);
    if (connection.isConnecting) {
      if (forMs > limits.connectMs) connection.destroy(noConnection());
      continue;
    }
    const failure = overdue(connection, forMs, limits);
    if (failure !== undefined) connection.destroy(failure);
  }
}

/** Closes connections that were idle for too long, and fails requests that waited for too long. */
function sweepPool(pool: Pool, nowMs: number, limits: OriginLimits): void {
  for (const connection of pool.idle.filter(({ idleUntil }) => idleUntil < nowMs)) {
    // Remove now rather than on close: the next request may come before the close.
    pool.idle.splice(pool.idle.indexOf(connection), 1);
    connection.destroy(notNeeded);
  }
  while (pool.waiting[0] !== undefined && nowMs - pool.waiting[0].waitingSince > limits.connectMs) {
    pool.waiting.shift()?.receiver.onFailure(overloaded(pool.origin));
  }
}

function countsOf(carrying: number, pools: Iterable<Pool>): KeptCounts {
  let idle = 0;
  let waiting = 0;
  for (const pool of pools) {
    idle += pool.idle.length;
    waiting += pool.waiting.length;
  }
  return { carrying, idle, waiting };
}
