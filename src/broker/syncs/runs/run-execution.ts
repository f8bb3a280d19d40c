import type { JsonValue } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import {
  type ScriptHost,
  type ScriptJob,
  type ScriptLimits,
  type ScriptOutcome,
  scriptNames,
  ToolFailure,
} from "../../../core/scripts/script.ts";
import { runOf } from "../../../core/scripts/sync-state.ts";
import { TriggerSyncRequest_Mode as Mode, type RecordCounts } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Condition, Store } from "../../../store/contract.ts";
import type { Logs } from "../../audit/logs.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Live } from "../../credentials/live-connections.ts";
import type { Events } from "../../deliveries/events.ts";
import type { SyncRecords } from "../../records/sync-records.ts";
import type { Providers } from "../../setup/providers.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { ScriptToolbox } from "../toolbox/script-tools.ts";
import type { LiveRuns } from "./live-runs.ts";
import { createRunEnd } from "./run-end.ts";
import type { RunAt } from "./run-results.ts";
import { createRunStart, type StartedRun } from "./run-start.ts";
import type { Runs } from "./runs.ts";
import { createSyncRuns } from "./sync-run.ts";
import { rememberCredentials, type UsedCredentials } from "./used-credentials.ts";

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

/** What a run has done so far. */
interface RunProgress {
  readonly signal: AbortSignal;
  /** Changed records by model. */
  readonly counts: Map<string, RecordCounts>;
  readonly used: UsedCredentials;
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
  /** Shows the runs in progress to those who watch them. */
  readonly liveRuns: LiveRuns;
  /** Limits of each run. */
  readonly limits: ScriptLimits;
  readonly world: World;
}

export function createRunExecution(options: ExecutionOptions): RunExecution {
  const { store, collections, scripts, runs, toolbox, records, live, providers, payloadOf } = options;
  const { events, logs, liveRuns, limits, world } = options;
  const start = createRunStart({ store, collections, scripts, logs, world });
  const openSyncRun = createSyncRuns({ store, collections, records });
  const end = createRunEnd({ store, collections, runs, providers, events, world });

  async function inputOf({ run, ref }: StartedRun): Promise<JsonValue | undefined> {
    const { notificationId } = run.value;
    if (notificationId === "") return runs.inputOf(run.value);
    const payload = await payloadOf({ environment: ref.environment, id: notificationId });
    // JSON.parse returns only JSON values.
    return payload === undefined ? undefined : (JSON.parse(payload) as JsonValue);
  }

  async function runScript(started: StartedRun, { signal, counts, used }: RunProgress): Promise<ScriptOutcome> {
    const { run, script, ref, log } = started;
    const input = await inputOf(started);
    const syncRun = await openSyncRun(started, counts);
    if (run.value.mode === Mode.FULL_REFRESH_AND_CLEAR_CACHE) await syncRun?.clear();
    const { noteSent } = used;
    const sync = syncRun?.tools;
    const { name } = script;
    const tools = toolbox.of({ script: name, ref, live: used.live, noteSent, log, signal, sync, isDryRun: false });
    const outcome = await scripts.run(script, {
      entry: run.value.notificationId === "" ? "exec" : "onWebhook",
      input,
      facts: factsOf(started),
      tools,
      limits,
      signal,
      row: "due",
    });
    await tools.end();
    if (outcome.kind === "failed") used.hideIn(log);
    else await syncRun?.finish();
    return outcome;
  }

  return {
    async execute(at, { fence, signal }) {
      const started = await start(at, fence);
      if (started === undefined) return;
      const { run, script, ref, log } = started;
      const used = rememberCredentials(() => live.get(ref));
      log.show(at.id, ...scriptNames(script));
      log.info("a script runs", { script: script.name, version: script.version, cause: runOf(run.value).cause });
      const counts = new Map<string, RecordCounts>();
      const endLive = liveRuns.add(at.id, { log, counts, secrets: used.secrets });
      const since = performance.now();
      try {
        const outcome = await runScript(started, { signal, counts, used }).catch((error: unknown): ScriptOutcome => {
          if (!(error instanceof ToolFailure || error instanceof Fault)) throw error;
          return { kind: "failed", failure: { code: "script_error", message: error.message, stack: [] } };
        });
        world.metrics.runSeconds.observe({ kind: script.kind }, (performance.now() - since) / 1_000);
        if (signal.reason instanceof Interruption && outcome.kind === "failed") return;
        await end(started, { outcome, counts });
      } finally {
        endLive();
      }
    },
  };
}

function factsOf({ run, script, ref, connection, sync }: StartedRun): ScriptJob["facts"] {
  const since = sync?.lastRunAt;
  const isIncremental = script.kind === "sync" && script.syncType === "incremental" && since !== undefined;
  return {
    environment: ref.environment,
    integration: ref.integration,
    connectionId: ref.id,
    provider: connection.provider,
    variant: run.value.variant,
    lastSyncDate: isIncremental ? timestampDate(since).toISOString() : undefined,
    runId: runOf(run.value).id,
  };
}
