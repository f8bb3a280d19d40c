import type { Channels } from "../channels/channels.ts";
import type { Connections } from "../connections/connections.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { ScriptHooks } from "../syncs/script-hooks.ts";

/**
 * While there are still credentials to do it with, the customer's own code is told that a connection goes, and then
 * its channels are stopped; that either cannot be done keeps none from being deleted.
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
    await connections.delete(asked, actor);
  },
});
