import { wantsHttp2 } from "../dial.ts";
import type { Egress } from "../egress.ts";
import type { UpstreamRequest } from "../exchange.ts";
import { noConnection, overloaded, RelayFailure } from "../failure.ts";
import { type OriginLimits, overdue, type SweepClock } from "../limits.ts";
import { isRepeatable, type PendingRequest } from "../pending-request.ts";
import type { Pool, Pools } from "../pools.ts";
import { createBulkBuffers } from "./bulk.ts";
import { Connection, type ConnectionOwner } from "./connection.ts";
import type { ReadHead } from "./response-head.ts";

/** HTTP/1.1 towards providers: connections that carry one request at a time, and are kept for the next one. */
export interface KeptConnections {
  /** Now, or once another one has ended. Throws `RelayFailure` when too many wait. */
  carry(pool: Pool, going: PendingRequest): void;
  /** Nobody waits for it any more. Returns false when it is neither carried here nor waits. */
  giveUp(going: PendingRequest): boolean;
  counts(): { readonly carrying: number; readonly idle: number; readonly waiting: number };
  sweep(): void;
  /** Ends connections that carry nothing. */
  drain(): void;
  destroy(): void;
}

interface KeptConnectionsOptions {
  readonly pools: Pools;
  readonly egress: Egress;
  readonly limits: OriginLimits;
  readonly readHead: ReadHead;
  readonly clock: SweepClock;
  /** The origin takes nothing but HTTP/2, and has seen nothing of it. */
  readonly onHttp2: (going: PendingRequest) => void;
}

/** Providers drop idle connections after a minute or two, and do not say so. */
const idleForMs = 30_000;
/** Sooner than the provider said: what it drops in this moment may be what we send next. */
const idleMarginMs = 1_000;
const maxIdlePerOrigin = 256;
/** Nobody is told of it, and to note where each one came from would cost more than all else about it. */
const notNeeded = new RelayFailure("closed", "it is not needed any more");

export function createKeptConnections(options: KeptConnectionsOptions): KeptConnections {
  const { pools, egress, limits, readHead, clock, onHttp2 } = options;
  /** A list, and each knows its place in it: to go into a set and out again costs each request 0.2 µs. */
  const carrying: Connection<Pool>[] = [];
  let isDraining = false;

  function dispatch(pool: Pool, going: PendingRequest): void {
    pool.carrying += 1;
    const idle = idleFor(pool, going.request);
    const connection = idle ?? new Connection(pool, owner);
    connection.at = carrying.push(connection) - 1;
    connection.watch(clock.nowMs);
    going.goOn(connection);
    if (idle !== undefined && !going.isSent) going.receiver.onDrain();
  }

  function idleFor({ idle }: Pool, { needsNew = false, idleAtMostMs }: UpstreamRequest): Connection<Pool> | undefined {
    if (needsNew) return undefined;
    // What the provider has ended is told to be gone a moment later.
    while (idle.at(-1)?.hasEnded === true) idle.pop();
    const last = idle.at(-1);
    if (last === undefined) return undefined;
    // Not by the clock of the sweeps, which stands still between them.
    if (idleAtMostMs !== undefined && performance.now() - last.idleSince > idleAtMostMs) return undefined;
    return idle.pop();
  }

  const owner: ConnectionOwner<Pool> = {
    ...{ egress, readHead, bulk: createBulkBuffers() },
    onIdle: rest,
    onGone: (connection, unanswered, failure) =>
      gone({ connection, unanswered: unanswered as PendingRequest, failure }),
  };

  /** Returns whether it was one of them. */
  function isNoMore(connection: Connection<Pool>): boolean {
    const { at } = connection;
    if (at === -1) return false;
    const last = carrying.pop();
    if (last !== undefined && last !== connection) {
      carrying[at] = last;
      last.at = at;
    }
    connection.at = -1;
    return true;
  }

  function rest(connection: Connection<Pool>): void {
    const { pool } = connection;
    isNoMore(connection);
    pool.carrying -= 1;
    const saidMs = connection.idleSeconds === undefined ? idleForMs : connection.idleSeconds * 1_000 - idleMarginMs;
    const forMs = Math.min(idleForMs, saidMs);
    if (isDraining || forMs <= 0 || pool.idle.length >= maxIdlePerOrigin) {
      connection.destroy(notNeeded);
    } else {
      connection.idleUntil = clock.nowMs + forMs;
      if (pool.origin.isApart === true) connection.idleSince = performance.now();
      pool.idle.push(connection);
    }
    takeNext(pool);
  }

  interface Gone {
    readonly connection: Connection<Pool>;
    readonly unanswered: PendingRequest | undefined;
    readonly failure: RelayFailure;
  }

  function gone({ connection, unanswered, failure }: Gone): void {
    const { pool } = connection;
    const at = pool.idle.indexOf(connection);
    if (at !== -1) pool.idle.splice(at, 1);
    if (isNoMore(connection)) pool.carrying -= 1;
    if (unanswered !== undefined) {
      if (connection.isConnecting && wantsHttp2(failure) && !pool.wantsHttp2) {
        pool.wantsHttp2 = true;
        unanswered.connection = undefined;
        onHttp2(unanswered);
        return;
      }
      if (isRepeatable(unanswered.request) && failure.kind === "closed" && connection.isReused) {
        unanswered.wasGiven = true;
        // Those that lie idle are likely to be gone as well: it goes on a new one, and so is repeated once.
        for (const other of pool.idle.splice(0)) other.destroy(failure);
        dispatch(pool, unanswered);
        return;
      }
      unanswered.wasGiven ||= !connection.isConnecting;
      unanswered.connection = undefined;
      unanswered.receiver.onFailure(failure);
    }
    takeNext(pool);
  }

  function takeNext(pool: Pool): void {
    const next = pool.carrying < limits.perOrigin ? pool.waiting.shift() : undefined;
    if (next !== undefined) dispatch(pool, next);
  }

  function sweepCarrying(): void {
    // One that is ended here leaves the list when it has closed.
    for (const connection of carrying) {
      const forMs = connection.stillFor(clock.nowMs);
      if (connection.isConnecting) {
        if (forMs > limits.connectMs) connection.destroy(noConnection());
        continue;
      }
      const failure = overdue(connection, forMs, limits);
      if (failure !== undefined) connection.destroy(failure);
    }
  }

  function sweepPool(pool: Pool): void {
    for (const connection of pool.idle.filter(({ idleUntil }) => idleUntil < clock.nowMs)) {
      // At once, and not when it has closed: the next request may come before that.
      pool.idle.splice(pool.idle.indexOf(connection), 1);
      connection.destroy(notNeeded);
    }
    while (pool.waiting[0] !== undefined && clock.nowMs - pool.waiting[0].waitingSince > limits.connectMs) {
      pool.waiting.shift()?.receiver.onFailure(overloaded(pool.origin));
    }
  }

  return {
    carry(pool, going) {
      if (pool.carrying < limits.perOrigin) {
        dispatch(pool, going);
      } else if (pool.waiting.length < limits.waitingPerOrigin) {
        going.waitingSince = clock.nowMs;
        pool.waiting.push(going);
      } else {
        throw overloaded(pool.origin);
      }
    },
    giveUp(going) {
      const { connection } = going;
      going.connection = undefined;
      if (connection !== undefined) {
        connection.abandon(going);
        return true;
      }
      const { waiting } = pools.of(going.request.origin);
      const at = waiting.indexOf(going);
      if (at !== -1) waiting.splice(at, 1);
      return at !== -1;
    },
    counts() {
      let idle = 0;
      let waiting = 0;
      for (const pool of pools.all()) {
        idle += pool.idle.length;
        waiting += pool.waiting.length;
      }
      return { carrying: carrying.length, idle, waiting };
    },
    sweep() {
      sweepCarrying();
      for (const pool of pools.all()) sweepPool(pool);
    },
    drain() {
      isDraining = true;
      for (const pool of pools.all()) {
        for (const connection of pool.idle.splice(0)) connection.destroy(new RelayFailure("closed", "draining"));
      }
    },
    destroy() {
      for (const connection of [...carrying]) connection.destroy(new RelayFailure("closed", "stopping"));
    },
  };
}
