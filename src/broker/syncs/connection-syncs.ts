import { baseVariant, isLive, newSync } from "../../core/scripts/sync-state.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { Runs } from "./runs/runs.ts";
import { findSync } from "./stored-sync.ts";
import type { SyncCollections } from "./sync-collections.ts";
import type { SyncScripts } from "./sync-scripts.ts";

/** Adds and removes the syncs of a connection together with the connection. */
export interface ConnectionSyncs {
  /** Whether syncs of the integration start with a connection. */
  startWith(integration: string): boolean;
  /** Returns the changes that add the syncs that start automatically, for the commit of a new connection. */
  addedFor(ref: ConnectionRef, nowMs: number): Promise<Change[]>;
  /** Returns the changes that remove all syncs, for the commit of a connection's deletion. */
  removedFor(ref: ConnectionRef): Promise<Change[]>;
}

interface ConnectionSyncsOptions {
  readonly collections: SyncCollections;
  readonly syncScripts: SyncScripts;
  readonly runs: Pick<Runs, "stored">;
}

export function createConnectionSyncs({ collections, syncScripts, runs }: ConnectionSyncsOptions): ConnectionSyncs {
  const { syncs } = collections;

  return {
    startWith: (integration) => syncScripts.of(integration).some(({ autoStart }) => autoStart),
    async addedFor(ref, nowMs) {
      const automatic = syncScripts.of(ref.integration).filter(({ autoStart }) => autoStart);
      const places = automatic.map(({ name }) => ({ ref, name, variant: baseVariant }));
      const found = await Promise.all(places.map((place) => findSync(syncs, place)));
      return places.flatMap((place, i) =>
        // Reset a sync that is left over from an earlier connection with the same id.
        syncs.change({ before: found[i], after: newSync({ ...place, autoStart: true, nowMs }) }),
      );
    },
    async removedFor({ environment, integration, id }) {
      const found = await syncs.page({ under: [environment, integration, id], limit: Number.MAX_SAFE_INTEGER });
      const lastRuns = await Promise.all(
        found.flatMap(({ value: { queuedId, runningId } }) =>
          [queuedId, runningId].map((runId) => runs.stored({ environment, id: runId })),
        ),
      );
      return [
        ...found.flatMap((one) => syncs.change({ before: one, after: undefined })),
        // The process that runs it sees the mark, and the run can write nothing more.
        ...lastRuns.flatMap((one) =>
          one === undefined || !isLive(one.value)
            ? []
            : collections.runs.change({ before: one, after: { ...one.value, cancelling: true } }),
        ),
      ];
    },
  };
}
