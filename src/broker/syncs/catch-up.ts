import type { World } from "../../base/world.ts";
import type { ScriptHost } from "../../core/scripts/script.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { TriggerSyncRequest_Mode as Mode } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Logs } from "../audit/logs.ts";
import type { Syncs } from "./syncs.ts";

/**
 * Triggers the syncs that an integration names for catching up, so that changes its channels missed are fetched.
 * `cause` is a code. The caller retries after a rejection, so the same catch-up may run twice.
 */
export type CatchUp = (ref: ConnectionRef, syncs: readonly string[], cause: string) => Promise<void>;

interface CatchUpOptions {
  readonly scripts: ScriptHost;
  readonly syncs: Pick<Syncs, "trigger">;
  readonly logs: Logs;
  readonly world: World;
}

/** The actor in the audit trail. */
const actor = "channels";

export function createCatchUp({ scripts, syncs, logs, world }: CatchUpOptions): CatchUp {
  /** Writes the syncs that do not exist to the connection's log. */
  async function logMissing(
    { environment, integration, id: connectionId }: ConnectionRef,
    missing: readonly string[],
    cause: string,
  ) {
    const message = "cannot catch up after missed notifications: the sync does not exist";
    const writer = logs.begin({ operation: "sync.catch_up", environment, integration, connectionId, secrets: [] });
    for (const key of missing) writer.warn(message, { key, code: cause });
    await writer.end({ failed: true }).write();
    world.log.warn(message, { environment, integration, connection: connectionId, code: cause });
  }

  return async (ref, names, cause) => {
    const { environment, integration, id: connectionId } = ref;
    const exists = (name: string) => scripts.find({ integration, kind: "sync", name }) !== undefined;
    const existing = names.filter(exists);
    const missing = names.filter((name) => !exists(name));
    if (missing.length > 0) await logMissing(ref, missing, cause);
    if (existing.length === 0) return;
    const mode = Mode.INCREMENTAL;
    await syncs.trigger({ environment, integration, connectionId, names: existing, mode, cause: "catch_up" }, actor);
  };
}
