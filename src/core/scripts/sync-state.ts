import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type StoredRun,
  StoredRunSchema,
  type StoredSync,
  StoredSyncSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import {
  TriggerSyncRequest_Mode as Mode,
  type Run,
  Run_State,
  RunSchema,
  Script_Kind,
} from "../../gen/latchkey/v1/sync_pb.ts";

/**
 * State transitions of a sync and its runs: pure functions, each committed as a whole. At most one run is active and
 * one is queued: a request for another run while one is queued gets the queued one.
 */

/** The name of the default variant. */
export const baseVariant = "base";

export interface SyncIdentity {
  readonly ref: ConnectionRef;
  readonly name: string;
  readonly variant: string;
}

const placeOfSync = ({ environment, integration, connectionId, name, variant }: StoredSync): SyncIdentity => ({
  ref: { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id: connectionId },
  name,
  variant,
});

/**
 * Returns the ordering key of runs. Runs with the same key run one after another: a sync's full runs have one key, its
 * notification runs another.
 */
export const runOrderKey = ({ ref, name, variant }: SyncIdentity, entry: "exec" | "onWebhook"): string =>
  [ref.environment, ref.integration, ref.id, name, variant, entry].join("\0");

interface NewSync extends SyncIdentity {
  readonly autoStart: boolean;
  readonly nowMs: number;
}

export function newSync({ ref, name, variant, autoStart, nowMs }: NewSync): StoredSync {
  const { environment, integration, id: connectionId } = ref;
  return create(StoredSyncSchema, {
    environment,
    integration,
    connectionId,
    name,
    variant,
    paused: !autoStart,
    dueMs: autoStart ? nowMs : 0,
    createdAt: timestampFromMs(nowMs),
  });
}

export interface NewRun extends SyncIdentity {
  readonly id: string;
  readonly kind: Script_Kind;
  readonly cause: string;
  readonly lane: string;
  readonly dueMs: number;
  readonly environmentId: string;
  /** Name of the caller of an action; empty for all other runs. */
  readonly starter?: string;
}

export function newRun(wanted: NewRun): StoredRun {
  const { id, ref, name, variant, kind, cause, lane, dueMs, environmentId, starter = "" } = wanted;
  return create(StoredRunSchema, {
    starter,
    variant,
    lane,
    dueMs,
    environmentId,
    run: create(RunSchema, {
      id,
      script: name,
      kind,
      cause,
      connection: ref,
      state: Run_State.QUEUED,
      dueAt: timestampFromMs(dueMs),
    }),
  });
}

export function runOf({ run }: StoredRun): Run {
  if (run === undefined) throw new Error("a stored run must have a run");
  return run;
}

export const isLive = (stored: StoredRun): boolean =>
  runOf(stored).state === Run_State.QUEUED || runOf(stored).state === Run_State.RUNNING;

/** The results of a transition: the sync and a run. */
export interface SyncChanges {
  readonly sync: StoredSync;
  readonly run: StoredRun;
}

interface RunRequest {
  readonly id: string;
  readonly cause: string;
  readonly mode: Mode;
  readonly environmentId: string;
  readonly nowMs: number;
}

const strength = (mode: Mode): number => (mode === Mode.UNSPECIFIED ? Mode.INCREMENTAL : mode);

/** Requests a run now. `queued` is the run that is already waiting, if any. */
export function requestRun(
  sync: StoredSync,
  queued: StoredRun | undefined,
  { id, mode, nowMs, ...more }: RunRequest,
): SyncChanges {
  if (queued !== undefined) {
    const stronger = strength(mode) > strength(queued.mode) ? mode : queued.mode;
    return { sync, run: { ...queued, mode: stronger, dueMs: Math.min(queued.dueMs, nowMs) } };
  }
  const place = placeOfSync(sync);
  const run = newRun({ ...place, ...more, id, kind: Script_Kind.SYNC, lane: runOrderKey(place, "exec"), dueMs: nowMs });
  return { sync: { ...sync, queuedId: id }, run: { ...run, mode } };
}

/** Starts the run; a full run first clears the checkpoint and the last run date. */
export function beginRun(sync: StoredSync, run: StoredRun, { nowMs, version }: RunStart): SyncChanges {
  const isAnew = strength(run.mode) > Mode.INCREMENTAL;
  const { checkpoint: _, lastRunAt: __, ...rest } = sync;
  return {
    sync: { ...(isAnew ? rest : sync), queuedId: "", runningId: runOf(run).id },
    run: startedRun(run, { nowMs, version }),
  };
}

export interface RunStart {
  readonly nowMs: number;
  readonly version: string;
}

export const startedRun = (run: StoredRun, { nowMs, version }: RunStart): StoredRun => ({
  ...run,
  attempts: run.attempts + 1,
  run: { ...runOf(run), state: Run_State.RUNNING, version, startedAt: timestampFromMs(nowMs) },
});

/** Returns the sync after one of its runs ended, successfully or not. */
export function afterRun(sync: StoredSync, run: Run): StoredSync {
  const isGood = run.state === Run_State.SUCCEEDED;
  return {
    ...sync,
    ...(sync.runningId === run.id && { runningId: "" }),
    ...(sync.queuedId === run.id && { queuedId: "" }),
    endedId: run.id,
    failed: run.state === Run_State.FAILED,
    ...(isGood && run.startedAt !== undefined && { lastRunAt: run.startedAt }),
  };
}

export const withCheckpoint = (sync: StoredSync, checkpoint: JsonObject | undefined): StoredSync => {
  const { checkpoint: _, ...rest } = sync;
  return checkpoint === undefined ? rest : { ...rest, checkpoint };
};

/** After more interruptions in a row, a run is not restarted: the run itself may be what ends the process. */
const maxInterruptions = 1;

/** Reports whether a run may restart after its process ended. Actions may not: their effects could happen twice. */
export const mayRestart = (run: StoredRun): boolean =>
  runOf(run).kind !== Script_Kind.ACTION && run.attempts <= maxInterruptions && !run.cancelling;

/** Retry delays of hooks and notifications, in milliseconds; a sync has its schedule. */
const retryAfterMs = [10_000, 60_000, 600_000] as const;

/**
 * Returns the time of the next retry; undefined for no retry. A sync has its schedule, and the caller of an action may
 * retry.
 */
export function retryTimeMs(run: StoredRun, nowMs: number, random: number): number | undefined {
  const isTried = runOf(run).kind === Script_Kind.EVENT || run.notificationId !== "";
  const waitMs = isTried ? retryAfterMs[run.failures] : undefined;
  return waitMs === undefined ? undefined : nowMs + Math.floor(waitMs * (1 + random / 4));
}

/** Creates a retry: another run, which carries the history of the previous one. */
export function retryRun(run: StoredRun, { id, dueMs, isFailure }: RepeatedRun): StoredRun {
  const { script, kind, connection } = runOf(run);
  const { variant, lane, mode, event, notificationId, environmentId } = run;
  return create(StoredRunSchema, {
    variant,
    lane,
    mode,
    event,
    notificationId,
    environmentId,
    dueMs,
    attempts: isFailure ? 0 : run.attempts,
    failures: run.failures + (isFailure ? 1 : 0),
    run: create(RunSchema, {
      id,
      script,
      kind,
      cause: "retry",
      state: Run_State.QUEUED,
      dueAt: timestampFromMs(dueMs),
      ...(connection !== undefined && { connection }),
    }),
  });
}

interface RepeatedRun {
  readonly id: string;
  readonly dueMs: number;
  /** The run itself failed; otherwise the process ended during the run. */
  readonly isFailure: boolean;
}
