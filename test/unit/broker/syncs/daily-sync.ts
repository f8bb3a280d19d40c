import type { SyncScript } from "../../../../src/core/scripts/script.ts";

/** A sync that runs once a day, and by itself for each connection of the integration `calendar`. */
export const dailySync: SyncScript = {
  ...{ kind: "sync", integration: "calendar", name: "things", version: "1", description: "", metadata: undefined },
  ...{ frequency: "1d", syncType: "full", autoStart: true, trackDeletes: false, models: {}, endpoints: [] },
  ...{ webhookSubscriptions: [], hasOnWebhook: false, hasCheckpoint: false, changedMs: 0, scopes: [] },
};
