import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredEndUserDeletion } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import { type EndUserDeletion, EndUserDeletion_State } from "../../gen/latchkey/v1/end_user_pb.ts";
import type { Condition, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { AuthorizationCollections } from "../connect/authorization-collections.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { createCountedDeletions } from "./counted-deletions.ts";
import type { EndUserCollections } from "./end-user-collections.ts";

/**
 * Makes one pass over everything that the end user has, and ends the deletion if nothing is left. Each commit counts
 * what it deletes, so that the report is exact after a crash. Returns whether the deletion has ended.
 */
export type RunDeletion = (parts: readonly string[], options: DeletionPass) => Promise<boolean>;

interface DeletionPass {
  /** The fence of the deletion's partition. */
  readonly fence: Condition;
  readonly signal: AbortSignal;
}

interface DeletionRunOptions {
  readonly store: Store;
  readonly collections: EndUserCollections & AuthorizationCollections & ConnectionCollections;
  /** Whose deletion runs hooks and stops channels first. */
  readonly connections: Connections;
  readonly audit: Audit;
  readonly world: World;
}

const pageSize = 200;
/** Connections deleted at the same time: each may wait for hooks and channels. */
const atOnce = 4;
/** Wait after a pass that left something behind. */
const againAfterMs = 5_000;

export function createDeletionRun(options: DeletionRunOptions): RunDeletion {
  const { store, collections, connections, audit, world } = options;
  const { endUserDeletions, connectSessions, pendingDevices } = collections;

  const { counted, deleteAll, pendingOf } = createCountedDeletions({ store, collections });

  /** Deletes the user's connections. Returns how many could not be deleted. */
  async function deleteConnections(
    parts: readonly string[],
    { actor, keepGrant, deletion }: StoredEndUserDeletion,
    signal: AbortSignal,
  ): Promise<number> {
    const { environment = "", endUserId = "" } = deletion ?? {};
    let failed = 0;
    async function deleteOne({ ref }: Connection): Promise<void> {
      if (ref === undefined || signal.aborted) return;
      try {
        const alongside = () => counted(parts, "connections", 1);
        await connections.delete({ ref, expectedRevision: 0n, keepGrant, alongside }, actor);
      } catch (error) {
        // Deleted by another call.
        if (error instanceof Fault && error.code === "unknown_connection") return;
        failed += 1;
        const { integration, id: connection } = ref;
        const fields = { environment, integration, connection, err: error };
        world.log.warn("could not delete a connection of a deleted end user; will retry", fields);
      }
    }
    for (let after: string | undefined; !signal.aborted; ) {
      const page = await collections.connections.pageBy("tag", {
        under: [environment, "end_user_id", endUserId],
        after,
        limit: pageSize,
      });
      for (let at = 0; at < page.length; at += atOnce) {
        await Promise.all(page.slice(at, at + atOnce).map(({ value }) => deleteOne(value)));
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) break;
      after = last.position;
    }
    return failed;
  }

  async function end(parts: readonly string[], isDone: boolean, fence: Condition): Promise<void> {
    const decide = async () => {
      const before = await endUserDeletions.get(...parts);
      const { deletion } = before?.value ?? {};
      if (before === undefined || deletion === undefined) return { changes: [], result: undefined };
      if (!isDone) {
        const after = { ...before.value, dueMs: world.now() + againAfterMs };
        return { changes: endUserDeletions.change({ before, after }), result: undefined };
      }
      const ended: EndUserDeletion = {
        ...deletion,
        state: EndUserDeletion_State.DONE,
        endedAt: timestampFromMs(world.now()),
      };
      const { environment, endUserId } = ended;
      const { actor } = before.value;
      return {
        changes: [
          ...endUserDeletions.change({ before, after: { ...before.value, deletion: ended } }),
          ...audit.changes({ actor, action: "end_user.deleted", environment, targets: [endUserId] }),
        ],
        result: undefined,
      };
    };
    await transact(store, decide, fence);
  }

  return async (parts, { fence, signal }) => {
    const found: StoredRecordOf<StoredEndUserDeletion> | undefined = await endUserDeletions.get(...parts);
    const { deletion } = found?.value ?? {};
    if (found === undefined || deletion === undefined) return true;
    if (found.value.dueMs > world.now()) return false;
    const isTheirs = (session: ConnectSession | undefined): boolean =>
      session?.environment === deletion.environment &&
      (session.endUser?.id === deletion.endUserId || session.tags["end_user_id"] === deletion.endUserId);
    // The ways to a new connection end first.
    await deleteAll(parts, "connectSessions", {
      records: connectSessions,
      index: "age",
      isWanted: isTheirs,
      alongside: pendingOf,
    });
    await deleteAll(parts, "deviceAuthorizations", {
      records: pendingDevices,
      index: "waiting",
      isWanted: ({ begunWith }) => isTheirs(begunWith),
    });
    const failed = await deleteConnections(parts, found.value, signal);
    if (signal.aborted) return false;
    await end(parts, failed === 0, fence);
    return failed === 0;
  };
}
