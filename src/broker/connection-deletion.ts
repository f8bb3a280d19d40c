import type { Channels } from "./channels.ts";
import { requireRevision } from "./conflict.ts";
import type { Connections } from "./connections.ts";

/** A connection's channels are stopped while there are still credentials to do it with; that they cannot be keeps none from being deleted. */
export const deletingWithChannels = (connections: Connections, channels: Channels): Connections => ({
  ...connections,
  async delete(asked, actor) {
    requireRevision(await connections.get(asked.ref), asked.expectedRevision);
    await channels.stopAllOf(asked.ref);
    await connections.delete(asked, actor);
  },
});
