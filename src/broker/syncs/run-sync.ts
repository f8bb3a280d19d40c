import { afterRun, runOf } from "../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Script_Kind } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { SyncCollections } from "./sync-collections.ts";

type SyncRecord = StoredRecordOf<StoredSync>;

/** Reads the state of the sync that a run belongs to; undefined if the script is no sync, or the sync was removed. */
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
