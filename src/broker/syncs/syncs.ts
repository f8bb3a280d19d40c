import type { World } from "../../base/world.ts";
import type { ScriptHost } from "../../core/scripts/script.ts";
import type { Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { SyncRecords } from "../records/sync-records.ts";
import type { Integrations } from "../setup/integrations.ts";
import { type ConnectionSyncs, createConnectionSyncs } from "./connection-syncs.ts";
import type { Runs } from "./runs/runs.ts";
import type { SyncCollections } from "./sync-collections.ts";
import { createSyncList, type SyncList } from "./sync-list.ts";
import { createSyncScripts, type SyncScripts } from "./sync-scripts.ts";
import { createSyncSettings, type SyncSettings } from "./sync-settings.ts";
import { createSyncTriggers, type TriggerSyncs } from "./sync-triggers.ts";
import { createSyncVariants, type SyncVariants } from "./sync-variants.ts";

/** Syncs of connections: the state of each, and the operator's settings. The run scheduler runs them. */
export interface Syncs extends SyncSettings, SyncVariants, ConnectionSyncs {
  readonly list: SyncList["list"];
  readonly named: SyncScripts["named"];
  readonly trigger: TriggerSyncs;
}

interface SyncsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly records: Pick<SyncRecords, "counts">;
  readonly audit: Audit;
  readonly world: World;
}

export function createSyncs(options: SyncsOptions): Syncs {
  const syncScripts = createSyncScripts(options.scripts);
  const { list, show } = createSyncList({ ...options, syncScripts });
  return {
    list,
    named: syncScripts.named,
    trigger: createSyncTriggers({ ...options, syncScripts }),
    ...createSyncSettings({ ...options, syncScripts, show }),
    ...createSyncVariants({ ...options, syncScripts, show }),
    ...createConnectionSyncs({ ...options, syncScripts }),
  };
}
