import { onBeat } from "../../base/loop/beat.ts";
import { createWriteBehind } from "../../base/loop/write-behind.ts";
import type { Partitions } from "../partitions/partitions.ts";
import { createDeliveryRunner } from "./attempts/delivery-runner.ts";
import { createForwardDelivery, type ForwardDeliveryServices } from "./attempts/forward-delivery.ts";
import { createDeliveryPartitions } from "./delivery-partitions.ts";
import { createDestinationHealth, type DestinationHealth } from "./destination-health.ts";
import type { QueuedForward } from "./outbox/queued-forward.ts";
import { createDestinationQueues } from "./queues/delivery-queues.ts";
import { destinationLimit } from "./queues/destination-limit.ts";

/**
 * Delivers the forwards of the outbox. Each replica delivers those of its partitions. All forwards with one order key
 * are in one partition: one process then keeps their order, and a forward needs no lease of its own.
 */
export interface Deliveries {
  /** Starts delivering what this replica has partitions of. */
  start(): void;
  configure(limits: DeliveryLimits): void;
  /** Limit of the time for one attempt. */
  timeoutMs(): number;
  readonly health: DestinationHealth;
  /** Stops. Running attempts get a moment to finish; other forwards wait in the store. */
  close(): Promise<void>;
}

export interface DeliveryLimits {
  /** Concurrent deliveries to one destination, of all replicas; undefined: it follows their number. */
  readonly perDestination: number | undefined;
  readonly timeoutMs: number;
}

export interface DeliveriesOptions extends ForwardDeliveryServices {
  readonly limits: DeliveryLimits;
  readonly partitions: Partitions;
}

const scanEveryMs = 1_000;
/**
 * Limits the deliveries that start in one tick. Receiving webhooks has priority: waiting forwards are safe, but a
 * provider that waits too long gives up. 16 is enough to share one commit: with 4 a delivery takes a quarter more CPU,
 * and with more than 16 no less.
 */
const mostPerTick = 16;
/**
 * Limit of deliveries per tick under load: half a millisecond of the event loop, including the work that follows from
 * them.
 */
const fewPerTick = 4;
/** Limits the running attempts over all destinations. */
const mostRunning = 1_024;

export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { store, outbox, destinations, world } = options;
  const { metrics, log } = world;
  let { limits } = options;
  const ours = createDeliveryPartitions({
    store,
    partitions: options.partitions,
    onChange(gained) {
      queues.retain(ours.isOurs);
      const added: QueuedForward[] = [];
      for (const waiting of outbox.all()) if (gained.has(waiting.partition)) added.push(waiting);
      // Add the oldest first, so that each forward is appended at the end of its ordered queue.
      added.sort((a, b) => a.createdMs - b.createdMs);
      for (const waiting of added) queues.put(waiting, world.now());
      // The share of a destination's limit may be larger now.
      queues.checkAll();
      pace.soon();
    },
    world,
  });
  const queues = createDestinationQueues({
    mostPerDestination: () => destinationLimit(limits.perDestination, ours.shareOf),
    most: mostRunning,
    isPaused: (destination) => destinations.isPaused(destination),
  });
  const health = createDestinationHealth(world);
  const delivery = createForwardDelivery({
    ...options,
    ours,
    timeoutMs: () => limits.timeoutMs,
    health,
  });
  const runner = createDeliveryRunner({
    queues,
    mayBegin: () => isStarted && ours.allowsDelivery(),
    async attempt(waiting, signal) {
      ours.begun(waiting);
      try {
        return await delivery.attempt(waiting, signal);
      } finally {
        ours.ended(waiting);
      }
    },
    onEnded: () => pace.soon(),
    now: world.now,
    log,
  });
  const pace = createWriteBehind({ begin: runner.beginNext, most: mostPerTick, few: fewPerTick });
  let isStarted = false;
  let stopScanning: (() => void) | undefined;

  outbox.listen({
    onWaiting(waiting) {
      // The forwards of other replicas would only fill the queues.
      if (!ours.isOurs(waiting)) return;
      queues.put(waiting, world.now());
      pace.soon();
    },
    onGone: (waiting) => queues.remove(waiting),
  });
  destinations.onChange(() => {
    queues.checkAll();
    pace.soon();
  });

  function scan(): void {
    const oldestMs = outbox.oldestMs();
    metrics.outboxOldest.set(oldestMs === undefined ? 0 : Math.max(0, world.now() - oldestMs) / 1_000);
    ours.report();
    pace.soon();
  }

  return {
    start() {
      isStarted = true;
      // Poll the wall clock instead of using long timers: the clock may be changed.
      stopScanning ??= onBeat(scanEveryMs, scan);
      scan();
    },
    configure(wanted) {
      limits = wanted;
      queues.checkAll();
    },
    timeoutMs: () => limits.timeoutMs,
    health,
    async close() {
      isStarted = false;
      stopScanning?.();
      pace.close();
      await runner.close();
    },
  };
}
