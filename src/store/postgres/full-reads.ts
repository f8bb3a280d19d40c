import { setTimeout as sleep } from "node:timers/promises";
import type { SqlQuery } from "./connections.ts";
import type { Queries } from "./queries.ts";

/**
 * Reads of much of the store as of one moment. After a failover all processes read everything again at once, and during
 * a roll-out all that start. A few may at a time, over all processes, and one in each process; the others wait.
 */
export type FullReads = <T>(read: (query: SqlQuery) => Promise<T>) => Promise<T>;

export interface FullReadLimits {
  /** How many processes may read at a time. */
  readonly fullReads: number;
  /** A process that waited this long reads nevertheless: holders may hang. */
  readonly fullReadWithinMs: number;
}

interface FullReadsOptions extends FullReadLimits {
  readonly queries: Pick<Queries, "onOne">;
  readonly schema: string;
}

/** Average time between tries; random, so that processes do not try all at once. */
const tryEveryMs = 200;
/** A paused process gives its place away. */
const idleWithin = "30s";

export function createFullReads(options: FullReadsOptions): FullReads {
  const { queries, schema, fullReads, fullReadWithinMs } = options;
  const places = Array.from({ length: fullReads }, (_, i) => `when pg_try_advisory_xact_lock($1, ${i}) then true`);
  const takeSql = `select case ${places.join(" ")} else false end`;
  const lock = lockOf(schema);
  let last: Promise<unknown> = Promise.resolve();

  /** Returns undefined if too many others read. The place is given back with the end of the transaction. */
  const tryOnce = <T>(read: (query: SqlQuery) => Promise<T>, isLate: boolean) =>
    queries.onOne(async (query): Promise<{ readonly result: T } | undefined> => {
      await query("begin isolation level repeatable read read only");
      await query(`set local idle_in_transaction_session_timeout = '${idleWithin}'`);
      const [taken] = await query<[boolean]>(takeSql, [lock]);
      const done = taken?.[0] === true || isLate ? { result: await read(query) } : undefined;
      await query("commit");
      return done;
    });

  async function readInTurn<T>(read: (query: SqlQuery) => Promise<T>): Promise<T> {
    const until = performance.now() + fullReadWithinMs;
    for (;;) {
      const done = await tryOnce(read, performance.now() >= until);
      if (done !== undefined) return done.result;
      await sleep(tryEveryMs * (0.5 + Math.random()));
    }
  }

  return (read) => {
    const turn = last.then(() => readInTurn(read));
    last = turn.catch(() => {});
    return turn;
  };
}

/** Stores in other schemas of the same database have places of their own. */
function lockOf(schema: string): number {
  let hash = 0x6c61_7463;
  for (const char of schema) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x0100_0193);
  return hash | 0;
}
