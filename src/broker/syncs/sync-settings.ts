import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { parseFrequency } from "../../core/scripts/frequency.ts";
import type { SyncScript } from "../../core/scripts/script.ts";
import type { SyncIdentity } from "../../core/scripts/sync-state.ts";
import type { StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Sync } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { type ConnectionCollections, targetOf } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { requireRevision } from "../stored/conflict.ts";
import { findSync, storedOrNew } from "./stored-sync.ts";
import type { SyncCollections } from "./sync-collections.ts";
import type { SyncList } from "./sync-list.ts";
import type { SyncScripts } from "./sync-scripts.ts";

/** The operator's settings of a sync: whether and how often it runs. */
export interface SyncSettings {
  start(at: SyncAt, actor: string): Promise<Sync>;
  pause(at: SyncAt, actor: string): Promise<Sync>;
  /** Sets a sync's own frequency; empty for its script's. */
  setFrequency(at: SyncAt & { readonly frequency: string }, actor: string): Promise<Sync>;
}

export interface SyncAt extends SyncIdentity {
  readonly expectedRevision: bigint;
}

export interface SyncSettingsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly syncScripts: SyncScripts;
  readonly connections: Pick<Connections, "get">;
  readonly show: SyncList["show"];
  readonly audit: Audit;
  readonly world: World;
}

export function createSyncSettings(options: SyncSettingsOptions): SyncSettings {
  const { store, collections, syncScripts, connections, show, audit, world } = options;
  const { syncs } = collections;

  async function change(
    { expectedRevision, ...place }: SyncAt,
    { action, actor }: { readonly action: string; readonly actor: string },
    move: (sync: StoredSync, script: SyncScript) => StoredSync,
  ): Promise<Sync> {
    const { ref, name } = place;
    const script = syncScripts.require(ref.integration, name);
    const { result, revision } = await transact(store, async () => {
      const connection = await connections.get(ref);
      const found = await findSync(syncs, place);
      if (expectedRevision !== 0n) requireRevision(found, expectedRevision);
      const after = move(storedOrNew(found, place, script, world.now()), script);
      return {
        changes: [
          ...syncs.change({ before: found, after }),
          ...audit.changes({ actor, action, environment: ref.environment, targets: [`${targetOf(ref)}/${name}`] }),
        ],
        conditions: [collections.connections.unchanged(connection)],
        result: after,
      };
    });
    return show({ ...result, revision: BigInt(revision) });
  }

  return {
    start: (at, actor) =>
      change(at, { action: "sync.start", actor }, (sync) => ({
        ...sync,
        paused: false,
        // A sync that became due while paused is due now.
        dueMs: sync.dueMs === 0 ? world.now() : Math.max(sync.dueMs, world.now()),
      })),
    pause: (at, actor) => change(at, { action: "sync.pause", actor }, (sync) => ({ ...sync, paused: true })),
    async setFrequency({ frequency, ...at }, actor) {
      const own = frequency === "" ? undefined : parseFrequency(frequency);
      if (own?.ok === false) {
        const mistakes = [{ path: ["frequency"], message: own.problem }];
        throw new Fault("invalid_body", "the frequency is not valid", { mistakes });
      }
      return change(at, { action: "sync.frequency", actor }, (sync, script) => {
        const parsed = own ?? parseFrequency(script.frequency);
        const soonestMs = world.now() + (parsed.ok ? parsed.everyMs : 0);
        return { ...sync, frequency, ...(sync.dueMs > 0 && { dueMs: Math.min(sync.dueMs, soonestMs) }) };
      });
    },
  };
}
