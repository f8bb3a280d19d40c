import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { nextDue, parseFrequency } from "../../core/scripts/frequency.ts";
import type { Script, ScriptHost } from "../../core/scripts/script.ts";
import { requestRun } from "../../core/scripts/sync-state.ts";
import type { StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { TriggerSyncRequest_Mode as Mode } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { after, partsOf } from "../../store/keys.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import { connectionPartition } from "../partitions/own-work.ts";
import type { RunPartitions } from "./runs/run-partitions.ts";
import type { Runs } from "./runs/runs.ts";
import { type SyncCollections, syncsDue } from "./sync-collections.ts";

/** Queues a run of each sync that is due and belongs to this process. */
export interface SyncSchedule {
  /** Returns how many syncs were due. */
  queueDue(nowMs: number): Promise<number>;
}

interface SyncScheduleOptions {
  readonly store: Store;
  readonly collections: SyncCollections;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly partitions: Pick<RunPartitions, "of" | "lost">;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly ended: AbortSignal;
  readonly world: World;
}

/** Limits the syncs in one commit: a larger commit would delay other commits. */
const perCommit = 25;
/** Due syncs that are listed at a time: many may belong to other processes. */
const pageSize = 200;
/** Delay before a sync whose script is missing is checked again. */
const missingScriptMs = 300_000;

export function createSyncSchedule(options: SyncScheduleOptions): SyncSchedule {
  const { store, collections, scripts, runs, partitions, destinations, ended } = options;

  function queued(before: StoredRecordOf<StoredSync>, nowMs: number): Change[] {
    const { environment, integration, name, paused, dueMs: wasDueMs, queuedId } = before.value;
    if (paused || wasDueMs === 0 || wasDueMs > nowMs) return [];
    const everyMs = intervalOf(before.value, scripts.find({ integration, kind: "sync", name }));
    if (everyMs === undefined) {
      return collections.syncs.change({ before, after: { ...before.value, dueMs: nowMs + missingScriptMs } });
    }
    const dueMs = nextDue(nowMs, everyMs, wasDueMs);
    if (queuedId !== "") return collections.syncs.change({ before, after: { ...before.value, dueMs } });
    const environmentId = destinations.environmentByName(environment)?.id ?? "";
    const id = sequentialId(nowMs);
    const request = { id, cause: "schedule", mode: Mode.INCREMENTAL, environmentId, nowMs };
    const moved = requestRun(before.value, undefined, request);
    return [...collections.syncs.change({ before, after: { ...moved.sync, dueMs } }), ...runs.added(moved.run)];
  }

  /** The key parts of a due sync, with its partition if that is this process's. */
  function ownSync(key: string): OwnSync | undefined {
    const parts = partsOf(key).slice(-5);
    const [environment = "", integration = "", connection = ""] = parts;
    const partition = partitions.of(connectionPartition(environment, integration, connection));
    return partition === undefined ? undefined : { parts, partition };
  }

  async function queue(own: readonly OwnSync[], nowMs: number): Promise<void> {
    const decide = async () => {
      const syncs = await collections.syncs.getMany(own.map(({ parts }) => parts));
      return {
        changes: syncs.flatMap((sync) => (sync === undefined ? [] : queued(sync, nowMs))),
        result: undefined,
      };
    };
    const held = new Set(own.map(({ partition }) => partition));
    try {
      await transact(store, decide, ...[...held].map(({ fence }) => fence));
    } catch (error) {
      const refused = [...held].find((one) => one.isLostBy(error));
      if (refused === undefined) throw error;
      // The next scan queues the others.
      partitions.lost(refused);
    }
  }

  return {
    async queueDue(nowMs) {
      let { from, to } = syncsDue(nowMs);
      let count = 0;
      while (!ended.aborted) {
        const page = await store.list({ from, to, limit: pageSize });
        const own = page.flatMap(({ key }) => ownSync(key) ?? []);
        for (let at = 0; at < own.length && !ended.aborted; at += perCommit) {
          await queue(own.slice(at, at + perCommit), nowMs);
        }
        count += own.length;
        const last = page.at(-1);
        if (last === undefined || page.length < pageSize) return count;
        from = after(last.key);
      }
      return count;
    },
  };
}

interface OwnSync {
  readonly parts: readonly string[];
  readonly partition: HeldPartition;
}

/** The interval of a sync: its own frequency, or its script's. Undefined if its script is missing. */
export function intervalOf({ frequency }: StoredSync, script: Script | undefined): number | undefined {
  if (script?.kind !== "sync") return undefined;
  const parsed = parseFrequency(frequency || script.frequency);
  return parsed.ok ? parsed.everyMs : undefined;
}
