import { create } from "@bufbuild/protobuf";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { SyncScript } from "../../core/scripts/script.ts";
import { requestRun, runOf, type SyncIdentity } from "../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { type TriggerSyncRequest_Mode as Mode, Run_State } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Runs } from "./runs/runs.ts";
import { findSync, storedOrNew } from "./stored-sync.ts";
import type { SyncCollections } from "./sync-collections.ts";
import type { SyncFilter } from "./sync-list.ts";
import type { SyncScripts } from "./sync-scripts.ts";

/** Queues runs and returns their ids. A sync with a queued run keeps that run. */
export type TriggerSyncs = (trigger: SyncTrigger, actor: string) => Promise<readonly string[]>;

export interface SyncTrigger extends SyncFilter {
  readonly mode: Mode;
  /** Cause of the runs; defaults to `trigger`. */
  readonly cause?: string;
}

interface SyncTriggersOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly syncScripts: SyncScripts;
  readonly runs: Pick<Runs, "added" | "stored">;
  readonly connections: Pick<Connections, "get">;
  readonly integrations: Pick<Integrations, "get">;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly audit: Audit;
  readonly world: World;
}

/** Connections that are triggered together in one commit. */
const perCommit = 25;

export function createSyncTriggers(options: SyncTriggersOptions): TriggerSyncs {
  const { store, collections, syncScripts, runs, connections, integrations, destinations, audit, world } = options;
  const { syncs } = collections;

  async function queuedRunOf({ environment, queuedId }: StoredSync): Promise<StoredRecordOf<StoredRun> | undefined> {
    const found = await runs.stored({ environment, id: queuedId });
    return found !== undefined && runOf(found.value).state === Run_State.QUEUED ? found : undefined;
  }

  /** Returns the changes that queue a run of a sync now, and the id of the run. */
  async function queueRun(
    place: SyncIdentity,
    script: SyncScript,
    { mode, cause = "trigger" }: Pick<SyncTrigger, "mode" | "cause">,
  ) {
    const { environment, integration, id: connectionId } = place.ref;
    const connection = await collections.connections.get(environment, integration, connectionId);
    // The connection was deleted after it was listed.
    if (connection === undefined) return { changes: [], conditions: [], id: undefined };
    const found = await findSync(syncs, place);
    const sync = storedOrNew(found, place, script, world.now());
    const queued = await queuedRunOf(sync);
    const nowMs = world.now();
    const environmentId = destinations.environmentByName(environment)?.id ?? "";
    const moved = requestRun(sync, queued?.value, { id: sequentialId(nowMs), cause, mode, environmentId, nowMs });
    const runChanges =
      queued === undefined ? runs.added(moved.run) : collections.runs.change({ before: queued, after: moved.run });
    return {
      changes: [...syncs.change({ before: found, after: moved.sync }), ...runChanges],
      conditions: [collections.connections.unchanged(connection)],
      id: runOf(moved.run).id,
    };
  }

  async function* connectionsOf(filter: SyncFilter): AsyncGenerator<ConnectionRef[]> {
    const { environment, integration, connectionId } = filter;
    if (connectionId !== "") {
      const ref = create(ConnectionRefSchema, { environment, integration, id: connectionId });
      await connections.get(ref);
      yield [ref];
      return;
    }
    await integrations.get({ environment, key: integration });
    let after: string | undefined;
    for (;;) {
      const page = await collections.connections.page({ under: [environment, integration], after, limit: perCommit });
      yield page.flatMap(({ value }) => value.ref ?? []);
      after = page.at(-1)?.position;
      if (page.length < perCommit) return;
    }
  }

  return async (trigger, actor) => {
    const { environment, integration, connectionId, names } = trigger;
    await integrations.get({ environment, key: integration });
    const all = syncScripts.named(integration, names);
    const ids: string[] = [];
    for await (const refs of connectionsOf(trigger)) {
      const { result } = await transact(store, async () => {
        const made = await Promise.all(
          refs.flatMap((ref) =>
            all.map(({ script, variant }) => queueRun({ ref, name: script.name, variant }, script, trigger)),
          ),
        );
        return {
          changes: made.flatMap(({ changes }) => changes),
          conditions: made.flatMap(({ conditions }) => conditions),
          result: made.flatMap(({ id }) => id ?? []),
        };
      });
      ids.push(...result);
    }
    const at = connectionId === "" ? integration : `${integration}/${connectionId}`;
    const targets = all.map(({ script }) => `${at}/${script.name}`);
    if (ids.length > 0) await store.commit(audit.changes({ actor, action: "sync.trigger", environment, targets }));
    return ids;
  };
}
