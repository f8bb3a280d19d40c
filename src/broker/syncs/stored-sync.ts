import { Fault } from "../../base/fault.ts";
import type { SyncScript } from "../../core/scripts/script.ts";
import { afterRun, baseVariant, newSync, runOf, type SyncIdentity } from "../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Script_Kind } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import { namesNothing } from "../stored/name-tables.ts";
import type { SyncCollections } from "./sync-collections.ts";

type SyncRecord = StoredRecordOf<StoredSync>;

/** Reads a sync; undefined if none is stored. */
export async function findSync(
  syncs: SyncCollections["syncs"],
  { ref, name, variant }: SyncIdentity,
): Promise<SyncRecord | undefined> {
  const key = [ref.environment, ref.integration, ref.id, name, variant];
  return namesNothing(...key) ? undefined : syncs.get(...key);
}

/** Returns the stored sync, or a new one for the base variant. Throws for a variant that was not created. */
export function storedOrNew(
  found: SyncRecord | undefined,
  place: SyncIdentity,
  { autoStart }: SyncScript,
  nowMs: number,
): StoredSync {
  if (found !== undefined) return found.value;
  if (place.variant !== baseVariant) throw unknownVariant(place);
  return newSync({ ...place, autoStart, nowMs });
}

export const unknownVariant = ({ name, variant }: SyncIdentity) =>
  new Fault("unknown_sync", `the sync "${name}" has no variant "${variant}" for this connection`);

/** Reads the sync that a run belongs to; undefined if its script is no sync, or the sync was removed. */
export async function syncOfRun(syncs: SyncCollections["syncs"], stored: StoredRun): Promise<SyncRecord | undefined> {
  const { kind, connection, script } = runOf(stored);
  if (kind !== Script_Kind.SYNC) return undefined;
  const { environment = "", integration = "", id = "" } = connection ?? {};
  return syncs.get(environment, integration, id, script, stored.variant);
}

/** Returns the changes to a sync after its run; none after a notification's run, which is no part of its schedule. */
export function syncChangesAfterRun(
  syncs: SyncCollections["syncs"],
  sync: SyncRecord | undefined,
  run: StoredRun,
): Change[] {
  if (sync === undefined || run.notificationId !== "") return [];
  return syncs.change({ before: sync, after: afterRun(sync.value, runOf(run)) });
}
