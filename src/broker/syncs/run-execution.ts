import { create, type JsonValue } from "@bufbuild/protobuf";
import { durationFromMs, timestampDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { ended, endOf, kindName, lastLines, runOperation, stateName } from "../../core/scripts/run-ending.ts";
import {
  namesOf,
  type Script,
  type ScriptHost,
  type ScriptLimits,
  type ScriptOutcome,
  ToolFailure,
} from "../../core/scripts/script.ts";
import { afterRun, again, begun, runOf, started, triedAgainMs, withCheckpoint } from "../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import {
  TriggerSyncRequest_Mode as Mode,
  type RecordCounts,
  RecordCountsSchema,
  type Run,
  Run_State,
  Script_Kind,
} from "../../gen/latchkey/v1/sync_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Logs, LogWriter } from "../audit/logs.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Live } from "../credentials/live-connections.ts";
import type { Events } from "../deliveries/events.ts";
import { syncEvents } from "../deliveries/sync-event.ts";
import type { SyncRecords } from "../records/sync-records.ts";
import type { Providers } from "../setup/providers.ts";
import { type RunRecords, recordsOfRun } from "./run-records.ts";
import type { RunAt, Runs } from "./runs.ts";
import type { ScriptToolbox, SyncTools } from "./script-tools.ts";
import type { SyncCollections } from "./sync-collections.ts";
import { rememberCredentials } from "./used-credentials.ts";

/** Executes a queued run: starts the run, runs its script, and stores the result. */
export interface RunExecution {
  /**
   * Starts the run under the fence of the lease for runs. Rejects only for our own reasons, such as an unavailable
   * store or a lost fence. If the signal aborts with an `Interruption`, the run stays `running` in the store for the
   * next holder of the lease to find.
   */
  execute(at: RunAt, under: RunLease): Promise<void>;
}

export interface RunLease {
  readonly fence: Condition;
  readonly signal: AbortSignal;
}

/** The process is stopping, or another replica has taken over. */
export class Interruption extends Error {
  override readonly name = "Interruption";
}

interface ExecutionOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly toolbox: ScriptToolbox;
  readonly records: SyncRecords;
  readonly live: Live;
  readonly providers: Providers;
  /** Returns the payload of a notification as the application receives it; undefined if the notification is gone. */
  readonly payloadOf: (at: RunAt) => Promise<string | undefined>;
  readonly events: Events;
  readonly logs: Logs;
  /** Limits of each run. */
  readonly limits: ScriptLimits;
  readonly world: World;
}

/** A started run, with everything that is needed to end it. */
interface StartedRun {
  readonly run: StoredRecordOf<StoredRun>;
  readonly script: Script;
  readonly connection: Connection;
  readonly ref: ConnectionRef;
  /** State of the sync when the run started; undefined if the script is no sync. */
  readonly sync: StoredSync | undefined;
  readonly log: LogWriter;
}

export function createRunExecution(options: ExecutionOptions): RunExecution {
  const {
    store,
    collections,
    scripts,
    runs,
    toolbox,
    records,
    live,
    providers,
    payloadOf,
    events,
    logs,
    limits,
    world,
  } = options;
  const { metrics } = world;

  function scriptOf({ script: name, kind, connection }: Run): Script | undefined {
    const { integration = "" } = connection ?? {};
    if (kind === Script_Kind.SYNC) return scripts.find({ integration, kind: "sync", name });
    if (kind === Script_Kind.ACTION) return scripts.find({ integration, kind: "action", name });
    return scripts.find({ integration, kind: "event", name });
  }

  const syncParts = ({ script, connection }: Run, variant: string): readonly string[] => [
    ...[connection?.environment ?? "", connection?.integration ?? "", connection?.id ?? ""],
    ...[script, variant],
  ];

  const syncOf = async (stored: StoredRun): Promise<StoredRecordOf<StoredSync> | undefined> =>
    runOf(stored).kind === Script_Kind.SYNC
      ? collections.syncs.get(...syncParts(runOf(stored), stored.variant))
      : undefined;

  /** Returns why a run cannot start: it was cancelled or paused, or its connection, sync or script is gone. */
  function obstacle(stored: StoredRun, found: Found): { readonly state: Run_State; readonly code: string } | undefined {
    const { kind } = runOf(stored);
    if (found.connection === undefined || stored.cancelling) return { state: Run_State.CANCELLED, code: "cancelled" };
    if (kind === Script_Kind.SYNC && found.sync === undefined) return { state: Run_State.CANCELLED, code: "cancelled" };
    if (found.script === undefined) return { state: Run_State.FAILED, code: "unknown_script" };
    // A paused sync ignores notifications; a run that a caller triggers starts anyway.
    const isUnheard = stored.notificationId !== "" && found.sync?.value.paused === true;
    return isUnheard ? { state: Run_State.CANCELLED, code: "paused" } : undefined;
  }

  interface Found {
    readonly connection: StoredRecordOf<Connection> | undefined;
    readonly sync: StoredRecordOf<StoredSync> | undefined;
    readonly script: Script | undefined;
  }

  /** Starts a run; undefined if the run must not start, or no longer. */
  async function begin({ environment, id }: RunAt, fence: Condition): Promise<StartedRun | undefined> {
    const decide = async () => {
      const before = await collections.runs.get(environment, id);
      if (before === undefined || runOf(before.value).state !== Run_State.QUEUED) return nothing;
      const run = runOf(before.value);
      const ref = run.connection;
      if (ref === undefined) throw new Error("a run has a connection");
      // Read both concurrently: concurrent reads are combined into one.
      const [connection, sync] = await Promise.all([
        collections.connections.get(ref.environment, ref.integration, ref.id),
        syncOf(before.value),
      ]);
      const found: Found = { connection, sync, script: scriptOf(run) };
      const why = obstacle(before.value, found);
      if (why !== undefined) {
        const message = sentences[why.code] ?? "";
        const after = ended(before.value, why.state, { code: why.code, message });
        metrics.runs.inc({ kind: kindName(run.kind), outcome: stateName(why.state) });
        return {
          changes: [...collections.runs.change({ before, after }), ...syncChanges(sync, after)],
          result: undefined,
        };
      }
      const { script } = found;
      if (script === undefined || connection === undefined) throw new Error("what stands in the way was looked at");
      const beginning = { nowMs: world.now(), version: script.version };
      const isWhole = sync !== undefined && before.value.notificationId === "";
      const moved = isWhole ? begun(sync.value, before.value, beginning) : undefined;
      const after = moved?.run ?? started(before.value, beginning);
      const log = logs.begin({
        operation: runOperation(run.kind),
        environment: ref.environment,
        integration: ref.integration,
        connectionId: ref.id,
        secrets: [],
      });
      const logged: StoredRun = { ...after, run: { ...runOf(after), logId: log.id } };
      return {
        changes: [
          ...collections.runs.change({ before, after: logged }),
          ...(moved === undefined ? [] : collections.syncs.change({ before: sync, after: moved.sync })),
        ],
        result: { after: logged, script, connection: connection.value, ref, sync: moved?.sync ?? sync?.value, log },
      };
    };
    const { result, revision } = await transact(store, decide, fence);
    if (result === undefined) return undefined;
    const { after, ...rest } = result;
    return { ...rest, run: { value: after, revision, bytes: 0 } };
  }

  /** Returns the changes to a sync after its run; none for a run that the sync does not count. */
  function syncChanges(sync: StoredRecordOf<StoredSync> | undefined, run: StoredRun): Change[] {
    if (sync === undefined || run.notificationId !== "") return [];
    return collections.syncs.change({ before: sync, after: afterRun(sync.value, runOf(run)) });
  }

  async function inputOf({ run, ref }: StartedRun): Promise<JsonValue | undefined> {
    const { notificationId } = run.value;
    if (notificationId === "") return runs.inputOf(run.value);
    const payload = await payloadOf({ environment: ref.environment, id: notificationId });
    // JSON.parse returns only JSON values.
    return payload === undefined ? undefined : (JSON.parse(payload) as JsonValue);
  }

  interface SyncSide {
    readonly tools: SyncTools;
    readonly kept: RunRecords;
    /** Ends a successful run: deletes the records that a full run did not return. */
    finish(): Promise<void>;
  }

  /**
   * Returns the tools of a sync's run. Each write requires that the run is still running, and not ended by another
   * process.
   */
  async function syncSideOf(one: StartedRun, counts: Map<string, RecordCounts>): Promise<SyncSide | undefined> {
    const { run, ref, script, sync, connection } = one;
    if (script.kind !== "sync" || sync === undefined) return undefined;
    const conditions: readonly Condition[] = [collections.runs.unchanged(run)];
    const { variant, notificationId } = run.value;
    const kept = recordsOfRun(records, { ref, connectionNumber: connection.number, variant, conditions });
    // A run that continues from a checkpoint has not seen the earlier records.
    const isWhole = script.syncType === "full" && notificationId === "" && sync.checkpoint === undefined;
    if (isWhole && script.trackDeletes) for (const model of Object.keys(script.models)) await kept.track(model);
    const count = (model: string, { added = 0, updated = 0, deleted = 0 }: Partial<SavedCounts>) => {
      const before = counts.get(model) ?? create(RecordCountsSchema);
      counts.set(model, {
        ...before,
        added: before.added + BigInt(added),
        updated: before.updated + BigInt(updated),
        deleted: before.deleted + BigInt(deleted),
      });
    };
    const requireModel = (model: string) => {
      if (Object.hasOwn(script.models, model)) return;
      throw new ToolFailure("unknown_model", `the sync declares no model "${model}"`);
    };
    const finish = async (model: string) => count(model, { deleted: await held(kept.finish(model)) });
    let { checkpoint } = sync;
    const tools: SyncTools = {
      async save(model, all) {
        requireModel(model);
        count(model, await held(kept.save(model, all)));
      },
      async update(model, all) {
        requireModel(model);
        count(model, await held(kept.update(model, all)));
      },
      async delete(model, all) {
        requireModel(model);
        count(model, await held(kept.delete(model, all)));
      },
      byIds: (model, ids) => kept.byIds(model, ids),
      async trackDeletes(model, step) {
        requireModel(model);
        if (step === "start") await kept.track(model);
        else await finish(model);
      },
      checkpoint: async () => checkpoint,
      async setCheckpoint(wanted) {
        await held(
          transact(store, async () => {
            const [before, current] = await Promise.all([
              syncOf(run.value),
              collections.runs.get(ref.environment, runOf(run.value).id),
            ]);
            if (before === undefined || current?.revision !== run.revision) throw overForOthers();
            const after = withCheckpoint(before.value, wanted);
            return { changes: collections.syncs.change({ before, after }), conditions, result: undefined };
          }),
        );
        checkpoint = wanted;
      },
    };
    return {
      tools,
      kept,
      async finish() {
        for (const model of kept.tracked()) await finish(model);
        // Also touch the models without changes: models that no run touches are removed eventually.
        if (notificationId === "") await held(kept.touch(Object.keys(script.models)));
      },
    };
  }

  async function attempt(
    one: StartedRun,
    signal: AbortSignal,
    counts: Map<string, RecordCounts>,
  ): Promise<ScriptOutcome> {
    const { run, script, ref, connection, sync, log } = one;
    const { mode, variant, notificationId } = run.value;
    const input = await inputOf(one);
    const side = await syncSideOf(one, counts);
    if (mode === Mode.FULL_REFRESH_AND_CLEAR_CACHE && script.kind === "sync") {
      if (side !== undefined) await held(side.kept.clear(Object.keys(script.models)));
    }
    const used = rememberCredentials(() => live.get(ref));
    const since = sync?.lastRunAt;
    const isIncremental = script.kind === "sync" && script.syncType === "incremental" && since !== undefined;
    const tools = toolbox.of({
      ref,
      live: used.live,
      noteSent: used.noteSent,
      log,
      signal,
      sync: side?.tools,
      isDryRun: false,
    });
    const outcome = await scripts.run(script, {
      entry: notificationId === "" ? "exec" : "onWebhook",
      input,
      facts: {
        environment: ref.environment,
        integration: ref.integration,
        connectionId: ref.id,
        provider: connection.provider,
        variant,
        lastSyncDate: isIncremental ? timestampDate(since).toISOString() : undefined,
        runId: runOf(run.value).id,
      },
      tools,
      limits,
      signal,
      row: "due",
    });
    await tools.end();
    if (outcome.kind === "failed") used.hideIn(log);
    else await side?.finish();
    return outcome;
  }

  interface Ending {
    readonly outcome: ScriptOutcome;
    readonly counts: ReadonlyMap<string, RecordCounts>;
  }

  /** Stores in one commit: the result, the state of the sync, the log, the events and the retry. */
  async function end(one: StartedRun, { outcome, counts }: Ending): Promise<void> {
    const { ref, script, log } = one;
    const nowMs = world.now();
    await transact(store, async () => {
      const [before, sync] = await Promise.all([
        collections.runs.get(ref.environment, runOf(one.run.value).id),
        syncOf(one.run.value),
      ]);
      // Another process ended the run as interrupted, or its environment is gone.
      if (before === undefined || runOf(before.value).state !== Run_State.RUNNING) return nothing;
      const isCancelled =
        before.value.cancelling || (outcome.kind === "failed" && outcome.failure.code === "cancelled");
      const state = isCancelled
        ? Run_State.CANCELLED
        : outcome.kind === "done"
          ? Run_State.SUCCEEDED
          : Run_State.FAILED;
      const problem = outcome.kind === "failed" ? log.redactedFailure(outcome.failure) : undefined;
      const output = outcome.kind === "done" && script.kind === "action" ? outcome.output : undefined;
      const base = ended(before.value, state, state === Run_State.SUCCEEDED ? undefined : problem);
      const { startedAt } = runOf(base);
      const ms = startedAt === undefined ? 0 : Math.max(0, nowMs - timestampMs(startedAt));
      const run: Run = { ...runOf(base), counts: Object.fromEntries(counts), duration: durationFromMs(ms) };
      const { run: after, changes: result } = runs.withResult({ ...base, run }, { output, failure: problem });
      const retryMs = state === Run_State.FAILED ? triedAgainMs(after, nowMs, Math.random()) : undefined;
      const retry =
        retryMs === undefined ? undefined : again(after, { id: sequentialId(nowMs), dueMs: retryMs, isFailure: true });
      const said = log.end({ failed: state === Run_State.FAILED, last: lastLines(run, problem) });
      return {
        changes: [
          ...collections.runs.change({ before, after }),
          ...result,
          ...syncChanges(sync, after),
          ...(retry === undefined ? [] : runs.added(retry, await runs.inputOf(after))),
          ...said.changes(),
          ...(script.kind === "sync" && state !== Run_State.CANCELLED
            ? syncEvents({
                run,
                variant: after.variant,
                syncType: after.notificationId === "" ? script.syncType : "webhook",
                provider: providers.find(one.connection.provider).name,
              }).flatMap(events.sync)
            : []),
        ],
        result: undefined,
      };
    });
    metrics.runs.inc({ kind: script.kind, outcome: stateName(endOf(outcome)) });
  }

  return {
    async execute(at, { fence, signal }) {
      const one = await begin(at, fence);
      if (one === undefined) return;
      one.log.show(at.id, ...namesOf(one.script));
      one.log.info("a script runs", {
        script: one.script.name,
        version: one.script.version,
        cause: runOf(one.run.value).cause,
      });
      const counts = new Map<string, RecordCounts>();
      const since = performance.now();
      const outcome = await attempt(one, signal, counts).catch((error: unknown): ScriptOutcome => {
        if (!(error instanceof ToolFailure || error instanceof Fault)) throw error;
        return { kind: "failed", failure: { code: "script_error", message: error.message, stack: [] } };
      });
      metrics.runSeconds.observe({ kind: one.script.kind }, (performance.now() - since) / 1_000);
      if (signal.reason instanceof Interruption && outcome.kind === "failed") return;
      await end(one, { outcome, counts });
    },
  };
}

const nothing = { changes: [], result: undefined };

interface SavedCounts {
  readonly added: number;
  readonly updated: number;
  readonly deleted: number;
}

/** The run was taken over by another process, or is being cancelled: its further writes are rejected. */
const overForOthers = () => new ToolFailure("cancelled", "the run has ended");

async function held<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (error instanceof StaleWrite) throw overForOthers();
    throw error;
  }
}

const sentences: Readonly<Record<string, string>> = {
  cancelled: "the run was cancelled before it began, or what it was about is gone",
  unknown_script: "there is no such script, or not any more",
  paused: "the sync is paused",
};
