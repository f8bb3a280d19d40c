import { sequentialId } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { kindName } from "../../../core/scripts/run-ending.ts";
import { afterRun, mayRestart, retryRun, runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { TriggerSyncRequest_Mode as Mode, Run_State, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import { type Change, type Store, StoreUnavailable } from "../../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../../store/records.ts";
import type { HeldPartition } from "../../partitions/held-partition.ts";
import { connectionPartition } from "../../partitions/own-work.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { Runs } from "./runs.ts";

/** Ends runs that are `running` in the store but in no process, because their process has ended. */
export interface InterruptedRuns {
  /**
   * Ends all interrupted runs of these partitions. `isRunningHere` identifies runs of this process, which continue.
   * Returns the partitions that no other process has taken meanwhile.
   */
  endAll(
    partitions: readonly HeldPartition[],
    isRunningHere: (id: string) => boolean,
  ): Promise<ReadonlySet<HeldPartition>>;
}

interface InterruptedRunsOptions {
  readonly store: Store;
  readonly collections: SyncCollections;
  readonly runs: Runs;
  readonly world: World;
}

const pageSize = 200;

export function createInterruptedRuns({ store, collections, runs, world }: InterruptedRunsOptions): InterruptedRuns {
  const { metrics, log } = world;

  async function end({ value }: StoredRecordOf<StoredRun>, { fence }: HeldPartition): Promise<void> {
    const { result } = await transact(store, () => interruption(value), fence);
    if (result === undefined) return;
    const { script, kind } = runOf(value);
    metrics.runs.inc({ kind: kindName(kind), outcome: "interrupted" });
    log.warn("a run was interrupted because its process ended", { script, run: runOf(value).id });
  }

  /** The commit that ends a run and, if it may be restarted, queues it again. */
  async function interruption(value: StoredRun) {
    const { environment = "" } = runOf(value).connection ?? {};
    const before = await collections.runs.get(environment, runOf(value).id);
    if (before === undefined || runOf(before.value).state !== Run_State.RUNNING) return unchanged;
    const state = before.value.cancelling ? Run_State.CANCELLED : Run_State.INTERRUPTED;
    const stopped: StoredRun = { ...before.value, run: { ...runOf(before.value), state } };
    const nowMs = world.now();
    const changes: Change[] = [...collections.runs.change({ before, after: stopped })];
    const sync = await syncOf(before.value);
    const rest = restOf(before.value, sync?.value);
    const restart = mayRestart(rest)
      ? retryRun(rest, { id: sequentialId(nowMs), dueMs: nowMs, isFailure: false })
      : undefined;
    // A queued run of the same sync does the work of the interrupted run.
    const queued = sync === undefined ? undefined : await runs.stored({ environment, id: sync.value.queuedId });
    const isQueued = queued !== undefined && runOf(queued.value).state === Run_State.QUEUED;
    if (isQueued && rest.mode > queued.value.mode) {
      changes.push(...collections.runs.change({ before: queued, after: { ...queued.value, mode: rest.mode } }));
    }
    const next = restart !== undefined && !isQueued ? restart : undefined;
    if (next !== undefined) changes.push(...runs.added(next, await runs.inputOf(before.value)));
    if (sync !== undefined) {
      const ended = afterRun(sync.value, runOf(stopped));
      const after = next === undefined ? ended : { ...ended, queuedId: runOf(next).id };
      changes.push(...collections.syncs.change({ before: sync, after }));
    }
    return { changes, result: state };
  }

  async function syncOf(run: StoredRun): Promise<StoredRecordOf<StoredSync> | undefined> {
    const { kind, connection, script } = runOf(run);
    if (kind !== Script_Kind.SYNC || run.notificationId !== "" || connection === undefined) return undefined;
    const { environment, integration, id } = connection;
    return collections.syncs.get(environment, integration, id, script, run.variant);
  }

  return {
    async endAll(partitions, isRunningHere) {
      const byNumber = new Map(partitions.map((one) => [one.number, one]));
      for (let position: string | undefined; ; ) {
        const page = await collections.runs.pageBy("running", { under: [], after: position, limit: pageSize });
        for (const run of page) {
          const { id, connection } = runOf(run.value);
          const { environment = "", integration = "", id: connectionId = "" } = connection ?? {};
          const partition = byNumber.get(connectionPartition(environment, integration, connectionId));
          if (partition === undefined || isRunningHere(id)) continue;
          await end(run, partition).catch((err: unknown) => {
            if (err instanceof StoreUnavailable) throw err;
            if (partition.isLostBy(err)) byNumber.delete(partition.number);
            // A run that cannot be ended must not delay the others.
            else log.error("could not end an interrupted run; will retry", { run: id, err });
          });
        }
        position = page.at(-1)?.position;
        if (page.length < pageSize) return new Set(byNumber.values());
      }
    },
  };
}

const unchanged = { changes: [], result: undefined };

/** Restarts a run with a checkpoint as an incremental run: a full refresh must not clear its records twice. */
const restOf = (run: StoredRun, sync: StoredSync | undefined): StoredRun =>
  sync?.checkpoint === undefined ? run : { ...run, mode: Mode.INCREMENTAL };
