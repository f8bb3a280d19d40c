import { onBeat } from "../../base/loop/beat.ts";
import { createWriteBehind } from "../../base/loop/write-behind.ts";
import { createDeliveryRunner } from "./attempts/delivery-runner.ts";
import { createForwardDelivery, type ForwardDeliveryServices } from "./attempts/forward-delivery.ts";
import { createDeliveryLease } from "./delivery-lease.ts";
import { createDestinationHealth, type DestinationHealth } from "./destination-health.ts";
import { createDestinationQueues } from "./queues/delivery-queues.ts";

/**
 * Delivers the forwards of the outbox. One replica delivers for all: one process then keeps the order within a channel
 * and the limit of attempts per destination, and a forward needs no lease of its own.
 */
export interface Deliveries {
  /** Starts delivering, as soon as this replica has the lease. Resolves after the first try to take the lease. */
  start(): Promise<void>;
  configure(limits: DeliveryLimits): void;
  /** Limit of the time for one attempt. */
  timeoutMs(): number;
  readonly health: DestinationHealth;
  /** Stops. Running attempts get a moment to finish; other forwards wait in the store. */
  close(): Promise<void>;
}

export interface DeliveryLimits {
  readonly perDestination: number;
  readonly timeoutMs: number;
}

interface DeliveriesOptions extends ForwardDeliveryServices {
  readonly limits: DeliveryLimits;
  readonly leaseMs?: number | undefined;
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
  const queues = createDestinationQueues({
    mostPerDestination: () => limits.perDestination,
    most: mostRunning,
    isPaused: (destination) => destinations.isPaused(destination),
  });
  const lease = createDeliveryLease({
    store,
    lengthMs: options.leaseMs,
    world,
    onTaken() {
      // Add the oldest first, so that each forward is appended at the end of its ordered queue.
      const all = [...outbox.all()].sort((a, b) => a.createdMs - b.createdMs);
      for (const waiting of all) queues.put(waiting, world.now());
    },
    onLost: () => queues.clear(),
    onReady: () => pace.soon(),
  });
  const health = createDestinationHealth(world);
  const delivery = createForwardDelivery({
    ...options,
    lease,
    timeoutMs: () => limits.timeoutMs,
    health,
  });
  const runner = createDeliveryRunner({
    queues,
    mayBegin: lease.allowsDelivery,
    attempt: delivery.attempt,
    onEnded: () => pace.soon(),
    now: world.now,
    log,
  });
  const pace = createWriteBehind({ begin: runner.beginNext, most: mostPerTick, few: fewPerTick });
  let isClosing = false;
  let stopScanning: (() => void) | undefined;
  let scanning: Promise<void> | undefined;

  outbox.listen({
    onWaiting(waiting) {
      // Without the lease the queues would only grow.
      if (lease.current() === undefined) return;
      queues.put(waiting, world.now());
      pace.soon();
    },
    onGone: (waiting) => queues.remove(waiting),
  });
  destinations.onChange(() => {
    queues.checkAll();
    pace.soon();
  });

  async function scan(): Promise<void> {
    try {
      await lease.hold();
    } catch (err) {
      if (!isClosing) log.warn("could not take or renew the delivery lease; will retry", { err });
    }
    const oldestMs = outbox.oldestMs();
    metrics.outboxOldest.set(oldestMs === undefined ? 0 : Math.max(0, world.now() - oldestMs) / 1_000);
    pace.soon();
  }

  function scanNow(): Promise<void> {
    scanning ??= scan().finally(() => {
      scanning = undefined;
    });
    return scanning;
  }

  return {
    start() {
      // Poll the wall clock instead of using long timers: the clock may be changed.
      stopScanning ??= onBeat(scanEveryMs, () => void scanNow());
      return scanNow();
    },
    configure(wanted) {
      limits = wanted;
      queues.checkAll();
    },
    timeoutMs: () => limits.timeoutMs,
    health,
    async close() {
      isClosing = true;
      stopScanning?.();
      pace.close();
      await scanning;
      await runner.close();
      await lease.release();
    },
  };
}
