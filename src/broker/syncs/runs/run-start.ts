import type { World } from "../../../base/world.ts";
import { endRun, kindName, runOperation, stateName } from "../../../core/scripts/run-ending.ts";
import type { Script, ScriptHost } from "../../../core/scripts/script.ts";
import { beginRun, runOf, startedRun } from "../../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Run, Run_State, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Condition, Store } from "../../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../../store/records.ts";
import type { Logs, LogWriter } from "../../audit/logs.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import { syncChangesAfterRun, syncOfRun } from "../stored-sync.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { RunAt } from "./run-results.ts";

/** Starts a queued run under a fence. Returns undefined if the run must not start; the reason is stored as its result. */
export type StartRun = (at: RunAt, fence: Condition) => Promise<StartedRun | undefined>;

/** A started run, with everything that is needed to end it. */
export interface StartedRun {
  readonly run: StoredRecordOf<StoredRun>;
  readonly script: Script;
  readonly connection: Connection;
  readonly ref: ConnectionRef;
  /** State of the sync when the run started; undefined if the script is no sync. */
  readonly sync: StoredSync | undefined;
  readonly log: LogWriter;
}

interface RunStartOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly scripts: Pick<ScriptHost, "find">;
  readonly logs: Pick<Logs, "begin">;
  readonly world: World;
}

/** The stored parts of a run that it needs to start. */
interface RunParts {
  readonly connection: StoredRecordOf<Connection> | undefined;
  readonly sync: StoredRecordOf<StoredSync> | undefined;
  readonly script: Script | undefined;
}

export function createRunStart({ store, collections, scripts, logs, world }: RunStartOptions): StartRun {
  const { metrics } = world;

  async function partsOf(stored: StoredRun, ref: ConnectionRef): Promise<RunParts> {
    // Read both concurrently: concurrent reads are combined into one.
    const [connection, sync] = await Promise.all([
      collections.connections.get(ref.environment, ref.integration, ref.id),
      syncOfRun(collections.syncs, stored),
    ]);
    return { connection, sync, script: scriptOf(scripts, runOf(stored)) };
  }

  /** The commit that ends a run without starting it. */
  function refusal(before: StoredRecordOf<StoredRun>, sync: RunParts["sync"], { state, ...problem }: Obstacle) {
    const after = endRun(before.value, state, problem);
    metrics.runs.inc({ kind: kindName(runOf(after).kind), outcome: stateName(state) });
    const syncChanges = syncChangesAfterRun(collections.syncs, sync, after);
    return { changes: [...collections.runs.change({ before, after }), ...syncChanges], result: undefined };
  }

  return async ({ environment, id }, fence) => {
    const decide = async () => {
      const before = await collections.runs.get(environment, id);
      if (before === undefined || runOf(before.value).state !== Run_State.QUEUED) return unchanged;
      const run = runOf(before.value);
      const ref = run.connection;
      if (ref === undefined) throw new Error("a run has a connection");
      const parts = await partsOf(before.value, ref);
      const { script, connection, sync } = parts;
      const obstacle = obstacleOf(before.value, parts);
      if (obstacle !== undefined) return refusal(before, sync, obstacle);
      if (script === undefined || connection === undefined) throw new Error("a missing part is an obstacle");
      const start = { nowMs: world.now(), version: script.version };
      const isScheduled = sync !== undefined && before.value.notificationId === "";
      const moved = isScheduled ? beginRun(sync.value, before.value, start) : undefined;
      const after = moved?.run ?? startedRun(before.value, start);
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
  };
}

const unchanged = { changes: [], result: undefined };

function scriptOf(scripts: Pick<ScriptHost, "find">, { script: name, kind, connection }: Run): Script | undefined {
  const { integration = "" } = connection ?? {};
  if (kind === Script_Kind.SYNC) return scripts.find({ integration, kind: "sync", name });
  if (kind === Script_Kind.ACTION) return scripts.find({ integration, kind: "action", name });
  return scripts.find({ integration, kind: "event", name });
}

interface Obstacle {
  readonly state: Run_State;
  readonly code: string;
  readonly message: string;
}

const cancelled: Obstacle = {
  state: Run_State.CANCELLED,
  code: "cancelled",
  message: "the run was cancelled before it started, or its connection or sync was deleted",
};
const unknownScript: Obstacle = {
  state: Run_State.FAILED,
  code: "unknown_script",
  message: "the script does not exist, or was removed",
};
const paused: Obstacle = { state: Run_State.CANCELLED, code: "paused", message: "the sync is paused" };

/** Returns why a run cannot start: it was cancelled or paused, or its connection, sync or script is gone. */
function obstacleOf(stored: StoredRun, { connection, sync, script }: RunParts): Obstacle | undefined {
  if (connection === undefined || stored.cancelling) return cancelled;
  if (runOf(stored).kind === Script_Kind.SYNC && sync === undefined) return cancelled;
  if (script === undefined) return unknownScript;
  // A paused sync ignores notifications; a run that a caller triggers starts anyway.
  return stored.notificationId !== "" && sync?.value.paused === true ? paused : undefined;
}
