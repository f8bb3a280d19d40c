import { durationFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { sequentialId } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { endRun, lastLines, runStateOf, stateName } from "../../../core/scripts/run-ending.ts";
import type { ScriptOutcome } from "../../../core/scripts/script.ts";
import { retryRun, retryTimeMs, runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type RecordCounts, type Run, Run_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Change, Store } from "../../../store/contract.ts";
import { transact } from "../../../store/records.ts";
import type { Events } from "../../deliveries/events.ts";
import { syncEvents } from "../../deliveries/sync-event.ts";
import type { Providers } from "../../setup/providers.ts";
import { syncChangesAfterRun, syncOfRun } from "../stored-sync.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { StartedRun } from "./run-start.ts";
import type { Runs } from "./runs.ts";

/** Ends a run. Stores in one commit: the result, the state of the sync, the log, the events and the retry. */
export type EndRun = (started: StartedRun, ending: RunEnding) => Promise<void>;

export interface RunEnding {
  readonly outcome: ScriptOutcome;
  /** Changed records by model. */
  readonly counts: ReadonlyMap<string, RecordCounts>;
}

interface RunEndOptions {
  readonly store: Store;
  readonly collections: SyncCollections;
  readonly runs: Runs;
  readonly providers: Providers;
  readonly events: Events;
  readonly world: World;
}

export function createRunEnd({ store, collections, runs, providers, events, world }: RunEndOptions): EndRun {
  /** Returns the changes that queue the retry of a failed run, if it is retried. */
  async function retryChanges(after: StoredRun, nowMs: number): Promise<Change[]> {
    const dueMs = retryTimeMs(after, nowMs, Math.random());
    if (dueMs === undefined) return [];
    const retry = retryRun(after, { id: sequentialId(nowMs), dueMs, isFailure: true });
    return runs.added(retry, await runs.inputOf(after));
  }

  function eventChanges({ script, connection }: StartedRun, after: StoredRun): Change[] {
    const run = runOf(after);
    if (script.kind !== "sync" || run.state === Run_State.CANCELLED) return [];
    return syncEvents({
      run,
      variant: after.variant,
      syncType: after.notificationId === "" ? script.syncType : "webhook",
      provider: providers.find(connection.provider).name,
    }).flatMap(events.sync);
  }

  return async (started, { outcome, counts }) => {
    const { ref, script, log } = started;
    const nowMs = world.now();
    await transact(store, async () => {
      const [before, sync] = await Promise.all([
        collections.runs.get(ref.environment, runOf(started.run.value).id),
        syncOfRun(collections.syncs, started.run.value),
      ]);
      // Another process ended the run as interrupted, or its environment is gone.
      if (before === undefined || runOf(before.value).state !== Run_State.RUNNING) return unchanged;
      const state = before.value.cancelling ? Run_State.CANCELLED : runStateOf(outcome);
      const problem = outcome.kind === "failed" ? log.redactedFailure(outcome.failure) : undefined;
      const output = outcome.kind === "done" && script.kind === "action" ? outcome.output : undefined;
      const base = endRun(before.value, state, state === Run_State.SUCCEEDED ? undefined : problem);
      const { startedAt } = runOf(base);
      const ms = startedAt === undefined ? 0 : Math.max(0, nowMs - timestampMs(startedAt));
      const run: Run = { ...runOf(base), counts: Object.fromEntries(counts), duration: durationFromMs(ms) };
      const { run: after, changes: result } = runs.withResult({ ...base, run }, { output, failure: problem });
      const isFailed = state === Run_State.FAILED;
      const ending = log.end({ failed: isFailed, last: lastLines(run, problem) });
      return {
        changes: [
          ...collections.runs.change({ before, after }),
          ...result,
          ...syncChangesAfterRun(collections.syncs, sync, after),
          ...(isFailed ? await retryChanges(after, nowMs) : []),
          ...ending.changes(),
          ...eventChanges(started, after),
        ],
        result: undefined,
      };
    });
    world.metrics.runs.inc({ kind: script.kind, outcome: stateName(runStateOf(outcome)) });
  };
}

const unchanged = { changes: [], result: undefined };
