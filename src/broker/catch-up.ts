import type { World } from "../base/world.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Logs } from "./logs.ts";

/**
 * Has the syncs run that an integration names for it, so that what its channels lost is fetched after all. `cause` is
 * a code. What it rejects with is tried again; it may so be asked twice.
 */
export type CatchUp = (ref: ConnectionRef, syncs: readonly string[], cause: string) => Promise<void>;

/** Where there are no syncs: the log of the connection says what could not be run. */
export const createLoggedCatchUp =
  ({ logs, world }: { readonly logs: Logs; readonly world: World }): CatchUp =>
  async ({ environment, integration, id: connectionId }, syncs, cause) => {
    const sentence = "what a channel has lost is not caught up with: there is no such sync";
    const writer = logs.begin({ operation: "sync.catch_up", environment, integration, connectionId, secrets: [] });
    for (const key of syncs) writer.warn(sentence, { key, code: cause });
    await writer.end({ failed: true }).write();
    world.log.warn(sentence, { environment, integration, connection: connectionId, code: cause });
  };
