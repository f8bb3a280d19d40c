import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { ScriptHost, SyncScript } from "../../core/scripts/script.ts";
import { baseVariant, newRun, runOrderKey } from "../../core/scripts/sync-state.ts";
import { Script_Kind } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Notification } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { Runs } from "./runs/runs.ts";

/**
 * Returns the runs of the syncs that subscribe to a notification, one for each matching connection, for the
 * notification's commit.
 */
export type NotifiedSyncs = (notification: Notification, kinds: readonly string[]) => Change[];

interface NotifiedSyncsOptions {
  readonly scripts: ScriptHost;
  readonly runs: Pick<Runs, "added">;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly world: World;
}

export function createNotifiedSyncs({ scripts, runs, destinations, world }: NotifiedSyncsOptions): NotifiedSyncs {
  return ({ id: notificationId, environment, integration, matches }, kinds) => {
    if (matches.length === 0) return [];
    const subscribed = scripts
      .all()
      .filter(
        (script): script is SyncScript =>
          script.kind === "sync" && script.integration === integration && subscribesTo(script, kinds),
      );
    if (subscribed.length === 0) return [];
    const environmentId = destinations.environmentByName(environment)?.id ?? "";
    return subscribed.flatMap(({ name }) =>
      matches.flatMap((ref) => {
        const nowMs = world.now();
        const place = { ref, name, variant: baseVariant };
        const run = newRun({
          ...place,
          id: sequentialId(nowMs),
          kind: Script_Kind.SYNC,
          cause: "webhook",
          lane: runOrderKey(place, "onWebhook"),
          dueMs: nowMs,
          environmentId,
        });
        return runs.added({ ...run, notificationId });
      }),
    );
  };
}

const subscribesTo = ({ hasOnWebhook, webhookSubscriptions }: SyncScript, kinds: readonly string[]): boolean =>
  hasOnWebhook && webhookSubscriptions.some((wanted) => wanted === "*" || kinds.includes(wanted));
