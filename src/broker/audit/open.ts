import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { type Audit, createAudit } from "./audit.ts";
import { createLogs, type LogStore, type Logs } from "./logs.ts";

/** The audit trail of changes, and the logs of what happens to connections. */
export interface AuditRoom {
  readonly audit: Audit;
  readonly logs: Logs;
}

interface AuditRoomOptions {
  readonly store: Store;
  readonly collections: LogStore;
  readonly world: World;
}

export const openAudit = ({ store, collections, world }: AuditRoomOptions): AuditRoom => ({
  audit: createAudit({ store, collections, world }),
  logs: createLogs({ store, collections, world }),
});
