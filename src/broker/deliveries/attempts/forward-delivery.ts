import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { SendSmallRequest } from "../../../base/small-requests.ts";
import type { World } from "../../../base/world.ts";
import { type StoredForward, StoredForward_Address } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { SigningSecrets } from "../../setup/signing-secrets.ts";
import type { DeliveryPartitions } from "../delivery-partitions.ts";
import type { DestinationHealth } from "../destination-health.ts";
import type { Destinations } from "../destinations.ts";
import type { ForwardBodies } from "../forward-bodies.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { QueuedForward } from "../outbox/queued-forward.ts";
import type { WebhookCollections } from "../webhook-collections.ts";
import { attemptDelivery } from "./attempt.ts";
import { createForwardResults } from "./forward-results.ts";
import { type ForwardUpdate, updateAfter } from "./forward-update.ts";
import { createRecentCatchUp } from "./recent-catch-up.ts";
import { untilStored } from "./until-stored.ts";

/** Delivers one forward: makes an attempt, and stores its result. */
export interface ForwardDelivery {
  /**
   * Makes one attempt; returns whether the destination accepted the forward. The signal aborts the attempt, and the
   * retries of the store after it.
   */
  attempt(waiting: QueuedForward, signal: AbortSignal): Promise<boolean>;
}

/** The services that a delivery uses. */
export interface ForwardDeliveryServices {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly outbox: Outbox;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly secrets: SigningSecrets;
  /** Sends to the environment's own addresses, which the operator configured and which are trusted. */
  readonly sendToApplication: SendSmallRequest;
  /** Sends to addresses that came over the API, with the same address checks as for a provider. */
  readonly send: SendSmallRequest;
  readonly world: World;
}

interface ForwardDeliveryOptions extends ForwardDeliveryServices {
  readonly ours: Pick<DeliveryPartitions, "held" | "lost">;
  readonly timeoutMs: () => number;
  readonly health: Pick<DestinationHealth, "onDelivered" | "onFailed">;
}

export function createForwardDelivery(options: ForwardDeliveryOptions): ForwardDelivery {
  const { store, collections, outbox, destinations, bodies, secrets, sendToApplication, send, world } = options;
  const { ours, timeoutMs, health } = options;
  const { forwards } = collections;
  const { metrics, log } = world;
  const results = createForwardResults({ store, collections, outbox, ours, world });

  const caughtUp = createRecentCatchUp(store);

  /** Returns the cached forward, without reading the store. */
  function cached(waiting: QueuedForward): StoredRecordOf<StoredForward> | undefined {
    const found = outbox.committed(waiting);
    const value = found && forwards.read(found.change, found.revision)?.value;
    return found && value && { value, revision: found.revision, bytes: found.change.value?.length ?? 0 };
  }

  async function pause(environment: string, url: string, signal: AbortSignal): Promise<void> {
    await untilStored(() => destinations.pause({ environment, url }, "gone"), { log, signal });
    metrics.destinationsPaused.inc();
    log.error("application answered 410; destination paused until it is resumed", { environment });
  }

  function reportDead({ environment, integration, id: forward }: StoredForward, reason: string): void {
    metrics.deadLetters.inc();
    log.warn("delivery failed for good; it can be replayed", { environment, integration, forward, reason });
  }

  function reportDelivered({ environment, createdAt }: StoredForward, url: string): void {
    if (createdAt === undefined) return;
    health.onDelivered(environment, url);
    metrics.deliverySeconds.series({}).observe(Math.max(0, world.now() - timestampMs(createdAt)) / 1_000);
  }

  return {
    async attempt(waiting, signal) {
      // Another replica may have replayed or cancelled this forward a moment ago, and memory may not show it yet.
      await caughtUp();
      const partition = ours.held(waiting);
      if (partition === undefined || partition.remainingMs() === 0) return true;
      const found = cached(waiting) ?? (await forwards.get(waiting.environment, waiting.id));
      if (found === undefined || found.value.state !== Forward_State.PENDING) return true;
      const { value } = found;
      const record = (update: ForwardUpdate) => results.record({ before: found, update, partition }, signal);
      const url = destinations.urlOf(value);
      if (url === "") {
        await record({ state: Forward_State.NO_DESTINATION, stateReason: "no_forward_url" });
        return true;
      }
      const tried = await attemptDelivery({
        id: value.id,
        url,
        body: await bodies.of(value),
        secrets: await secrets.of(value.environment),
        number: value.attemptCount + 1,
        send: value.address === StoredForward_Address.OVERRIDE ? send : sendToApplication,
        timeoutMs: timeoutMs(),
        signal,
        world,
      });
      if (tried === undefined) return false;
      const { attempt, verdict } = tried;
      metrics.deliveryAttempts.series({ outcome: verdict.kind }).add();
      if (verdict.kind === "gone") await pause(value.environment, url, signal);
      const update = updateAfter(value, { attempt, verdict, nowMs: world.now(), random: Math.random() });
      if (update.state === Forward_State.DEAD) reportDead(value, update.stateReason ?? "");
      await record(update);
      if (verdict.kind !== "delivered") {
        health.onFailed(value.environment, url, verdict.kind === "gone" ? "gone" : verdict.reason);
        return false;
      }
      bodies.delivered(value);
      reportDelivered(value, url);
      return true;
    },
  };
}
