import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import type { SqlQuery } from "./connections.ts";

interface PrunerOptions {
  readonly query: SqlQuery;
  readonly schema: string;
  readonly log: Log;
  /** The latest revision known to this process. */
  readonly seen: () => number;
  readonly everyMs: number;
  /** How long deletions stay known: a replica that was away for less misses nothing. */
  readonly afterMs: number;
}

const atOnce = 1_000;
/** Longer than anyone waits for a commit. */
const abandonedMs = 600_000;

/** Removes the rows of deleted keys, and old marks. */
export function createPruner({ query, schema, log, seen, everyMs, afterMs }: PrunerOptions): { close(): void } {
  const closing = new AbortController();
  /** The latest revision at each time. */
  let marks: { readonly at: number; readonly revision: number }[] = [];
  void pruneUntilClosed();

  /** Returns the latest revision that is old enough. */
  function due(): number {
    const now = performance.now();
    const old = marks.filter(({ at }) => now - at >= afterMs);
    const newest = old.at(-1);
    marks = [...(newest === undefined ? [] : [newest]), ...marks.slice(old.length), { at: now, revision: seen() }];
    return newest?.revision ?? 0;
  }

  async function prune(upTo: number): Promise<void> {
    const deleted = `from ${schema}.entry where value is null and revision <= $1`;
    // The mark of `upTo` itself may be the head's.
    const oldMarks = `from ${schema}.mark where revision < $1`;
    const [found] = await query<[boolean]>(`select exists (select ${deleted}) or exists (select ${oldMarks})`, [upTo]);
    if (found?.[0] !== true) return;
    // Recorded before rows are deleted, so that a replica that missed them can tell.
    await query(`update ${schema}.head set pruned = $1 where pruned < $1`, [upTo]);
    await query(`delete ${oldMarks}`, [upTo]);
    for (;;) {
      // Waits for no lock, so it cannot deadlock with a commit.
      const gone = await query(
        `delete from ${schema}.entry where key = any (array(
          select key ${deleted} order by revision limit ${atOnce} for update skip locked
        )) returning true`,
        [upTo],
      );
      if (gone.length < atOnce) return;
    }
  }

  /** Removes groups of processes that ended before they had their outcome. */
  async function dropAbandoned(): Promise<void> {
    await query(`delete from ${schema}.waiting_group where due < extract(epoch from now()) * 1000 - ${abandonedMs}`);
    await query(`delete from ${schema}.group_outcome where since < now() - interval '${abandonedMs} ms'`);
  }

  async function pruneUntilClosed(): Promise<void> {
    while (!closing.signal.aborted) {
      const upTo = due();
      // Spreads the replicas' runs.
      const rest = everyMs * (0.75 + Math.random() / 2);
      try {
        if (upTo > 0) await prune(upTo);
        await dropAbandoned();
      } catch (err) {
        if (!closing.signal.aborted) log.debug("could not remove the tombstones of deleted keys; will retry", { err });
      }
      await sleep(rest, undefined, { signal: closing.signal }).catch(() => {});
    }
  }

  return { close: () => closing.abort() };
}
