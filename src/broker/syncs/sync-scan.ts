import type { World } from "../../base/world.ts";
import type { ScriptHost, SyncScript } from "../../core/scripts/script.ts";
import { baseVariant, newSync } from "../../core/scripts/sync-state.ts";
import type { StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import type { SyncCollections } from "./sync-collections.ts";
import { intervalOf } from "./sync-schedule.ts";

/**
 * Gives connections the syncs that scripts with `autoStart` want for them, for example when the script is newer than
 * the connection. One process scans for all, some connections at a time.
 */
export interface SyncScan {
  /** Scans the next connections if it is time for them. */
  scanWhenDue(partition: HeldPartition): Promise<void>;
  /** Restarts the scan at the first connection, at once, because the scripts have changed. */
  restart(): void;
  /** Makes the next scan due at once, from the current position. */
  hurry(): void;
}

interface SyncScanOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly scripts: ScriptHost;
  readonly world: World;
}

const everyMs = 60_000;
/** Pause before the next page of connections, and before a page that failed is processed again. */
const nextPartMs = 1_000;
const pageSize = 1_000;

export function createSyncScan({ store, collections, scripts, world }: SyncScanOptions): SyncScan {
  let dueAt = Number.NEGATIVE_INFINITY;
  /** The scan's position. A restart replaces it, also while a page is processed. */
  let place: { after: string | undefined } = { after: undefined };

  /** Returns the changes that create a connection's missing syncs, and that correct syncs with a wrong due time. */
  async function changesFor({ ref }: Connection, wanted: readonly SyncScript[]): Promise<Change[]> {
    if (ref === undefined || wanted.length === 0) return [];
    const keys = wanted.map(({ name }) => [ref.environment, ref.integration, ref.id, name, baseVariant]);
    const syncs = await collections.syncs.getMany(keys);
    return wanted.flatMap((script, i) => {
      const { name } = script;
      const sync = syncs[i];
      const nowMs = world.now();
      if (sync === undefined) {
        const after = newSync({ ref, name, variant: baseVariant, autoStart: true, nowMs });
        return collections.syncs.change({ before: sync, after });
      }
      if (sync.value.paused || !isMisscheduled(sync.value, script, nowMs)) return [];
      return collections.syncs.change({ before: sync, after: { ...sync.value, dueMs: nowMs } });
    });
  }

  /** Returns false if another writer was first. */
  async function commit(page: readonly StoredRecordOf<Connection>[], partition: HeldPartition): Promise<boolean> {
    const automatic = scripts.all().filter((one): one is SyncScript => one.kind === "sync" && one.autoStart);
    const byIntegration = Map.groupBy(automatic, ({ integration }) => integration);
    const changes: Change[] = [];
    const conditions: Condition[] = [];
    for (const connection of page) {
      const wanted = byIntegration.get(connection.value.ref?.integration ?? "") ?? [];
      const connectionChanges = await changesFor(connection.value, wanted);
      changes.push(...connectionChanges);
      // A connection that is deleted in the meantime must leave no sync behind.
      if (connectionChanges.length > 0) conditions.push(collections.connections.unchanged(connection));
    }
    if (changes.length === 0) return true;
    try {
      await store.commit(changes, [...conditions, partition.fence]);
      return true;
    } catch (error) {
      if (!(error instanceof StaleWrite) || partition.isLostBy(error)) throw error;
      return false;
    }
  }

  return {
    async scanWhenDue(partition) {
      if (performance.now() < dueAt) return;
      const soon = performance.now() + nextPartMs;
      dueAt = soon;
      if (!scripts.all().some((one) => one.kind === "sync" && one.autoStart)) return;
      const here = place;
      const page = await collections.connections.page({ under: [], after: here.after, limit: pageSize });
      if (!(await commit(page, partition))) return;
      here.after = page.length < pageSize ? undefined : page.at(-1)?.position;
      // Unless it was made due at once in the meantime.
      if (here.after === undefined && dueAt === soon) dueAt = performance.now() + everyMs;
    },
    restart() {
      dueAt = Number.NEGATIVE_INFINITY;
      place = { after: undefined };
    },
    hurry() {
      dueAt = Number.NEGATIVE_INFINITY;
    },
  };
}

/**
 * Detects a wrong due time. A sync without one had no script for a while; one far in the future was scheduled before
 * the clock was set back.
 */
function isMisscheduled(sync: StoredSync, script: SyncScript, nowMs: number): boolean {
  return sync.dueMs === 0 || sync.dueMs > nowMs + (intervalOf(sync, script) ?? 0);
}
