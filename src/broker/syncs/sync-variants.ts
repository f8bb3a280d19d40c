import { Fault } from "../../base/fault.ts";
import { baseVariant, newSync, type SyncIdentity } from "../../core/scripts/sync-state.ts";
import type { Sync } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Change } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import { targetOf } from "../connections/connection-collections.ts";
import { findSync, unknownVariant } from "./stored-sync.ts";
import type { SyncSettingsOptions } from "./sync-settings.ts";

/** Variants of a sync: the same script with its own schedule, checkpoint and records. */
export interface SyncVariants {
  addVariant(place: SyncIdentity, actor: string): Promise<Sync>;
  removeVariant(place: SyncIdentity, actor: string): Promise<void>;
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

export function createSyncVariants(options: SyncSettingsOptions): SyncVariants {
  const { store, collections, syncScripts, connections, show, audit, world } = options;
  const { syncs } = collections;

  const auditChanges = ({ ref, name, variant }: SyncIdentity, action: string, actor: string): Change[] =>
    audit.changes({
      actor,
      action,
      environment: ref.environment,
      targets: [`${targetOf(ref)}/${name}::${variant}`],
    });

  return {
    async addVariant(place, actor) {
      const { ref, name, variant } = place;
      const { autoStart } = syncScripts.require(ref.integration, name);
      if (variant === baseVariant || !namePattern.test(variant)) {
        throw new Fault(
          "invalid_path",
          "`variant` must be 1 to 128 letters, digits, `_`, `.` or `-`, begin with a letter or digit, and not be `base`",
        );
      }
      const { result, revision } = await transact(store, async () => {
        const connection = await connections.get(ref);
        if ((await findSync(syncs, place)) !== undefined) {
          throw new Fault("already_exists", `the sync "${name}" already has the variant "${variant}"`);
        }
        const after = newSync({ ...place, autoStart, nowMs: world.now() });
        return {
          changes: [...syncs.change({ before: undefined, after }), ...auditChanges(place, "sync.variant", actor)],
          conditions: [collections.connections.unchanged(connection)],
          result: after,
        };
      });
      return show({ ...result, revision: BigInt(revision) });
    },
    async removeVariant(place, actor) {
      if (place.variant === baseVariant) {
        throw new Fault("invalid_path", "the variant `base` cannot be deleted; pause the sync instead");
      }
      await transact(store, async () => {
        await connections.get(place.ref);
        const before = await findSync(syncs, place);
        if (before === undefined) throw unknownVariant(place);
        return {
          changes: [
            ...syncs.change({ before, after: undefined }),
            ...auditChanges(place, "sync.variant_delete", actor),
          ],
          result: undefined,
        };
      });
    },
  };
}
