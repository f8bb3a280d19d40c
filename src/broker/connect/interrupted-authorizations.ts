import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { type PendingAuthorization, PendingAuthorizationSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { Logs } from "../audit/logs.ts";
import { secretValues } from "../audit/secret-values.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";

interface InterruptedSweepOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
  readonly logs: Logs;
  readonly world: World;
}

/** Longer than all steps of an exchange may take together. */
const interruptedAfterMs = 10 * 60_000;
const perSweep = 500;

/**
 * Tells of authorizations that ended with their process, between two steps of the exchange: the code is used up, and
 * no connection was made. Their sessions are still open, so that the end user can begin again.
 */
export function createInterruptedSweep(options: InterruptedSweepOptions): (signal: AbortSignal) => Promise<void> {
  const { store, collections, logs, world } = options;
  const { pendingAuthorizations, connectSessions } = collections;

  function logOf(pending: PendingAuthorization): Change[] {
    const { environment, integration, reconnect } = pending;
    const secrets = secretValues(PendingAuthorizationSchema, pending);
    const connectionId = reconnect?.id ?? "";
    const log = logs.begin({ operation: "auth.authorize", environment, integration, connectionId, secrets });
    log.warn(
      "the process ended between two steps of the exchange: the code is used up; the end user must begin again",
      {
        reason: "interrupted",
      },
    );
    world.log.warn("an authorization was interrupted", { environment, integration, log_id: log.id });
    return log.end({ failed: true }).changes();
  }

  return async (signal) => {
    const keys = await store.list({ ...under(`${pendingAuthorizations.name}.age`), limit: perSweep });
    // Key parts: the space, the time, and the key of the record itself.
    const oldest = await pendingAuthorizations.getMany(keys.map(({ key }) => partsOf(key).slice(2)));
    for (const before of oldest) {
      if (before === undefined) continue;
      const { claimedAt, sessionId } = before.value;
      if (claimedAt === undefined || timestampMs(claimedAt) + interruptedAfterMs > world.now()) continue;
      if (signal.aborted) return;
      // The commit of a connection ends its session.
      const isOpen = (await connectSessions.get(sessionId)) !== undefined;
      const changes = pendingAuthorizations.change({ before, after: undefined });
      await store.commit([...changes, ...(isOpen ? logOf(before.value) : [])]);
    }
  };
}
