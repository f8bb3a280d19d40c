import type { LoopClock } from "../../base/loop-clock.ts";
import { StoreUnavailable } from "../contract.ts";
import { type DedicatedConnection, maxReaders, type PostgresConnections, type SqlQuery } from "./connections.ts";
import { isBroken, reasonOf } from "./errors.ts";
import type { Outage } from "./outage.ts";

/** Statements for callers of the store: their errors are those of the contract. */
export interface Queries {
  /** Runs a task, unless nothing can be read now, and converts its errors. */
  attempt<T>(task: () => Promise<T>): Promise<T>;
  /** Runs a short statement. Retries on another connection if one is broken. */
  readonly read: SqlQuery;
  /** Like `read`, for a statement that may take long. */
  readonly readLong: SqlQuery;
  /** Runs several statements on one connection; begins again on another if it is broken. */
  onOne<T>(task: (query: SqlQuery) => Promise<T>): Promise<T>;
  dedicate(): Promise<DedicatedConnection>;
}

interface QueriesOptions {
  readonly connections: PostgresConnections;
  readonly clock: LoopClock;
  readonly outage: Outage;
  /** The server, as messages name it. */
  readonly place: string;
  /** Throws `StoreUnavailable` once the store is closed. */
  readonly requireOpen: () => void;
  /** Called when a connection broke: the server may be away. */
  readonly onBroken: () => void;
}

/** A failure sooner than this is due to the connection; later, it may be the server. */
const soonMs = 1_000;
/** All existing connections may have broken at once. */
const maxTries = maxReaders + 2;

export function createQueries(options: QueriesOptions): Queries {
  const { connections, clock, outage, place, requireOpen, onBroken } = options;

  async function attempt<T>(task: () => Promise<T>): Promise<T> {
    requireOpen();
    if (outage.isTotal) throw outage.error;
    try {
      return await task();
    } catch (cause) {
      requireOpen();
      if (cause instanceof StoreUnavailable) throw cause;
      if (isBroken(cause)) onBroken();
      throw new StoreUnavailable(`PostgreSQL at ${place}: ${reasonOf(cause)}`, { cause });
    }
  }

  const retried =
    (query: SqlQuery): SqlQuery =>
    (text, values) =>
      attempt(() => onAnother(clock, () => query(text, values)));

  return {
    attempt,
    read: retried(connections.read),
    readLong: retried(connections.readLong),
    onOne: (task) => attempt(() => onAnother(clock, () => connections.onOne(task))),
    async dedicate() {
      const connection = await attempt(() => connections.dedicate());
      return { ...connection, query: (text, values) => attempt(() => connection.query(text, values)) };
    },
  };
}

/** Retries on another connection: one that broke while idle may show that only when it is used. */
export async function onAnother<T>(clock: LoopClock, task: () => Promise<T>): Promise<T> {
  const startedAt = clock.now();
  for (let tries = 1; ; tries += 1) {
    try {
      return await task();
    } catch (error) {
      if (!isBroken(error) || tries === maxTries || clock.now() - startedAt > soonMs) throw error;
    }
  }
}
