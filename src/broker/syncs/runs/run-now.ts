import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { sequentialId } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { endRun, lastLines, runOperation, runStateOf, stateName } from "../../../core/scripts/run-ending.ts";
import {
  type Script,
  type ScriptHost,
  type ScriptJob,
  type ScriptLimits,
  type ScriptLine,
  type ScriptOutcome,
  type ScriptProgress,
  scriptNames,
} from "../../../core/scripts/script.ts";
import type { ScriptClient } from "../../../core/scripts/script-client.ts";
import { baseVariant, newRun, runOf, startedRun } from "../../../core/scripts/sync-state.ts";
import { createGrowingRedaction } from "../../../core/secrets/growing-redaction.ts";
import { createRedaction, redactJson } from "../../../core/secrets/redaction.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { LogLine } from "../../../gen/latchkey/v1/log_pb.ts";
import { type Run, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../../store/contract.ts";
import type { Logs } from "../../audit/logs.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import type { ScriptToolbox } from "../toolbox/script-tools.ts";
import { createDryRun, type DryRunReport } from "./dry-run.ts";
import type { Runs } from "./runs.ts";
import { rememberCredentials } from "./used-credentials.ts";

/** Runs a script at once for a waiting caller; stores nothing before the end. */
export type RunNow = (asked: ImmediateRunRequest) => Promise<ImmediateRun>;

export interface ImmediateRunRequest {
  /** An action or a hook; a sync in a dry run. */
  readonly script: Script;
  readonly ref: ConnectionRef;
  readonly live: () => Promise<LiveConnection>;
  readonly provider: string;
  /** Name of the caller of an action. */
  readonly starter?: string | undefined;
  readonly input?: JsonValue | undefined;
  readonly cause: string;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  readonly row: ScriptJob["row"];
  /** Called when the script says how far it is, without secrets that the run knows. */
  readonly noteProgress?: ((progress: ScriptProgress) => void) | undefined;
  /** Called with each line that the script logs, without secrets that the run knows. */
  readonly noteLine?: ((line: ScriptLine) => void) | undefined;
  /** Gets the script's questions without secrets that the run knows. */
  readonly client?: ScriptClient | undefined;
  /**
   * The connection is about to be created: a request that the provider rejects is not repeated with stored credentials.
   */
  readonly isDraft?: boolean;
  readonly entry?: ScriptJob["entry"];
  /** Changes none of our data, and stores nothing of the run. */
  readonly isDryRun?: boolean;
  /** Starting state for the dry run of a sync. */
  readonly checkpoint?: JsonObject | undefined;
  readonly lastSyncDate?: string | undefined;
}

export interface ImmediateRun {
  readonly run: Run;
  readonly outcome: ScriptOutcome;
  readonly lines: readonly LogLine[];
  /** Report on the dry run of a sync. */
  readonly dryRun?: DryRunReport;
}

interface RunNowOptions {
  readonly store: Store;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly toolbox: ScriptToolbox;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly logs: Logs;
  /** Limits of each run; a caller may set a shorter deadline. */
  readonly limits: ScriptLimits;
  readonly world: World;
}

const kinds = { sync: Script_Kind.SYNC, action: Script_Kind.ACTION, event: Script_Kind.EVENT } as const;

export function createRunNow({
  store,
  scripts,
  runs,
  toolbox,
  destinations,
  logs,
  limits,
  world,
}: RunNowOptions): RunNow {
  return async ({
    script,
    ref,
    live,
    provider,
    starter = "",
    input,
    cause,
    deadlineMs,
    signal: callerSignal,
    row,
    isDraft = false,
    entry = "exec",
    isDryRun = false,
    checkpoint,
    lastSyncDate,
    ...waiting
  }) => {
    const { environment, integration, id: connectionId } = ref;
    const kind = kinds[script.kind];
    const beganMs = world.now();
    const place = { ref, name: script.name, variant: baseVariant };
    const environmentId = destinations.environmentByName(environment)?.id ?? "";
    const id = sequentialId(beganMs);
    const queued = newRun({ ...place, id, kind, cause, lane: "", dueMs: beganMs, environmentId, starter });
    const log = logs.begin({ operation: runOperation(kind), environment, integration, connectionId, secrets: [] });
    const running = startedRun(queued, { nowMs: beganMs, version: script.version });
    log.show(id, ...scriptNames(script));
    log.info("a script runs", { script: script.name, version: script.version, cause });
    const used = rememberCredentials(live);
    const dryRun = isDryRun && script.kind === "sync" ? createDryRun(script, checkpoint) : undefined;
    const signal = callerSignal ?? new AbortController().signal;
    const since = performance.now();
    world.metrics.runsOpen.inc();
    const tools = toolbox.of({
      script: script.name,
      ref,
      live: used.live,
      noteSent: used.noteSent,
      log,
      signal,
      sync: dryRun?.tools,
      isDryRun,
      isDraft,
      isNested: row === "nested",
      // The log also knows the variables of the environment that the script has read.
      ...withoutSecrets(waiting, () => [...used.secrets(), ...log.hidden()]),
    });
    const raw = await scripts
      .run(script, {
        entry,
        input,
        facts: {
          environment,
          integration,
          connectionId,
          provider,
          variant: baseVariant,
          lastSyncDate,
          runId: id,
        },
        tools,
        limits: { ...limits, deadlineMs: Math.min(deadlineMs, limits.deadlineMs) },
        signal,
        row,
      })
      .finally(() => world.metrics.runsOpen.dec());
    await tools.end();
    const ms = performance.now() - since;
    const state = runStateOf(raw);
    world.metrics.runs.inc({ kind: script.kind, outcome: stateName(state) });
    world.metrics.runSeconds.observe({ kind: script.kind }, ms / 1_000);
    if (raw.kind === "failed") used.hideIn(log);
    const outcome: ScriptOutcome =
      raw.kind === "failed" ? { kind: "failed", failure: log.redactedFailure(raw.failure) } : raw;
    const failure = outcome.kind === "failed" ? outcome.failure : undefined;
    const output = outcome.kind === "done" ? outcome.output : undefined;
    const endedRun = endRun(running, state, failure);
    const run: Run = { ...runOf(endedRun), logId: log.id, duration: durationFromMs(Math.round(ms)) };
    const { run: stored, changes } = runs.withResult({ ...endedRun, run }, { output, failure });
    const endedLog = log.end({
      failed: failure !== undefined && failure.code !== "input_required",
      last: lastLines(run, failure),
    });
    if (!isDryRun) await store.commit([...runs.added(stored, input), ...changes, ...endedLog.changes()]);
    return { run, outcome, lines: endedLog.lines, ...(dryRun && { dryRun: dryRun.report() }) };
  };
}

type WaitingCaller = Pick<ImmediateRunRequest, "client" | "noteProgress" | "noteLine">;

/** Returns what the caller is told and asked while it waits, without secrets that the run knows. */
function withoutSecrets({ client, noteProgress, noteLine }: WaitingCaller, secrets: () => string[]): WaitingCaller {
  const redact = createGrowingRedaction(secrets);
  return {
    client: client && withoutSecretsOf(client, secrets),
    noteProgress:
      noteProgress && (({ message, ...rest }) => noteProgress({ ...rest, message: message && redact(message) })),
    noteLine: noteLine && (({ level, message }) => noteLine({ level, message: redact(message) })),
  };
}

/** Removes known secrets from questions. Text that only looks random stays: a form names fields and values with it. */
function withoutSecretsOf({ abilities, ask }: ScriptClient, secrets: () => string[]): ScriptClient {
  return {
    abilities,
    async ask(questions) {
      const redact = createRedaction(secrets(), new Set(), { guesses: false });
      return ask(redactJson(questions, redact) as JsonObject);
    },
  };
}
