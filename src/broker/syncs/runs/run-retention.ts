import { timestampMs } from "@bufbuild/protobuf/wkt";
import { isLive, runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store } from "../../../store/contract.ts";
import type { Lease } from "../../../store/leases.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import { runInputKey, runOutputKey, type SyncCollections } from "../sync-collections.ts";

/** Deletes runs that ended long ago, with their inputs and outputs: the oldest first, in small commits. */
export type RunSweep = (request: RunSweepRequest) => Promise<number>;

interface RunSweepRequest {
  readonly maxAgeMs: number;
  readonly nowMs: number;
  readonly lease: Pick<Lease, "fence">;
  /** Stops the sweep between two commits. */
  readonly signal: AbortSignal;
}

interface RunSweepOptions {
  readonly store: Store;
  readonly collections: Pick<SyncCollections, "runs">;
  readonly destinations: Pick<Destinations, "isCurrent">;
}

const pageSize = 200;
/** Limits the deletions of one round, because other work needs the store too. */
const maxPerRound = 20_000;

export function createRunSweep({ store, collections, destinations }: RunSweepOptions): RunSweep {
  const { runs } = collections;

  const environmentOf = (run: StoredRun): string => runOf(run).connection?.environment ?? "";

  return async ({ maxAgeMs, nowMs, lease, signal }) => {
    const cutoff = nowMs - maxAgeMs;
    let deleted = 0;
    let after: string | undefined;
    while (!signal.aborted && deleted < maxPerRound) {
      const page = await runs.page({ under: [], after, limit: pageSize });
      const last = page.at(-1);
      if (last === undefined) return deleted;
      const isOver = (run: StoredRun) => !isLive(run) && dueAtMs(run) < cutoff;
      // Runs left over from a deleted environment can run no more.
      const isLeft = (run: StoredRun) =>
        !destinations.isCurrent({ environment: environmentOf(run), environmentId: run.environmentId });
      const gone = page.filter(({ value }) => isOver(value) || isLeft(value));
      const changes = gone.flatMap((before) => {
        const environment = environmentOf(before.value);
        const { id } = runOf(before.value);
        return [
          ...runs.change({ before, after: undefined }),
          ...(before.value.hasInput ? [{ key: runInputKey(environment, id), value: undefined }] : []),
          ...(before.value.hasOutput ? [{ key: runOutputKey(environment, id), value: undefined }] : []),
        ];
      });
      try {
        if (changes.length > 0) await store.commit(changes, [lease.fence]);
      } catch (error) {
        // A run changed, or another process sweeps now: the next round continues.
        if (!(error instanceof StaleWrite)) throw error;
        return deleted;
      }
      deleted += gone.length;
      // Within an environment, runs are in order of time: after the first run that is young enough, all are.
      after = dueAtMs(last.value) < cutoff ? last.position : `${environmentOf(last.value)}\x01`;
    }
    return deleted;
  };
}

const dueAtMs = (run: StoredRun): number => {
  const { dueAt } = runOf(run);
  return dueAt === undefined ? 0 : timestampMs(dueAt);
};
