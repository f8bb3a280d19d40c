import type { Channels } from "../channels/channels.ts";
import type { Connections } from "../connections/connections.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { ScriptHooks } from "../syncs/script-hooks.ts";

/**
 * Runs the customer's deletion hook and stops the channels first, while the credentials still exist. If either fails,
 * the connection is deleted all the same.
 */
export const deletingInOrder = (
  connections: Connections,
  { channels, hooks }: { readonly channels: Channels; readonly hooks: ScriptHooks },
): Connections => ({
  ...connections,
  async delete(asked, actor) {
    requireRevision(await connections.get(asked.ref), asked.expectedRevision);
    await hooks.beforeDeletion(asked.ref);
    await channels.stopAllOf(asked.ref);
    return connections.delete(asked, actor);
  },
});
