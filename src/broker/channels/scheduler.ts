import { setTimeout as sleep } from "node:timers/promises";
import { createJobPool, type Job } from "../../base/job-pool.ts";
import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createHeldLease } from "../../store/held-lease.ts";
import { after, partsOf } from "../../store/keys.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { timeOfDueKey } from "../syncs/sync-collections.ts";
import type { ChannelCalls } from "./calls.ts";
import { type ChannelCollections, channelsDue } from "./channel-collections.ts";
import { createChannelScan } from "./connection-scan.ts";
import type { ChannelScans } from "./health.ts";
import { placeOf } from "./rules/slot.ts";
import { type ChannelSlots, partsOfPlace } from "./slots.ts";

/**
 * Works on channels that are due (to create, renew, stop), in one replica for all. Bounded for each integration, and
 * stopped for an integration whose provider said to come back later. Each step is stored, so no work is lost with the
 * process.
 */
export interface ChannelScheduler {
  /** Begins, as soon as this replica has the lease. */
  start(): void;
  /** Does everything that is due now, without waiting for the next scan. */
  run(): Promise<void>;
  close(): Promise<void>;
}

interface ChannelSchedulerOptions {
  readonly store: Store;
  readonly collections: SetupCollections & ConnectionCollections & ChannelCollections;
  readonly slots: ChannelSlots;
  readonly calls: ChannelCalls;
  readonly looks: ChannelScans;
  readonly providers: Providers;
  /** Empty until the listeners are open: before that, providers cannot be given a webhook URL. */
  readonly publicUrl: () => string;
  readonly world: World;
}

const leaseMs = 15_000;
const scanEveryMs = 1_000;
/** At 0.2 s a call these make 20 calls a second: below what providers allow an app, and 1,000 channels in a minute. */
const mostOfIntegration = 4;
const mostInAll = 32;
const pageSize = 500;
/** Due channels that one scan reads at most in search of some that may begin. */
const mostScanned = 20_000;
const mostWaiting = 1_000;
/** Pause after an error of Latchkey's own, such as an unavailable store. */
const pauseMs = 5_000;
const closeWithinMs = 10_000;
const connectionsEveryMs = 60_000;
const longestHoldMs = 86_400_000;

export function createChannelScheduler(options: ChannelSchedulerOptions): ChannelScheduler {
  const { store, collections, slots, calls, looks, providers, publicUrl, world } = options;
  const { channels } = collections;
  const { metrics, log } = world;
  const lease = createHeldLease({ store, name: "channels", lengthMs: leaseMs });
  const connectionScan = createChannelScan({ collections, slots, providers, world });
  const ended = new AbortController();
  /** Integrations whose provider said when to come back, each with that time. */
  const held = new Map<string, number>();
  let connectionsScannedAt = Number.NEGATIVE_INFINITY;
  let storeScannedAt = Number.NEGATIVE_INFINITY;
  /** Due channels of the last scan of the store that could not begin yet. */
  let waiting: StoredChannel[] = [];

  const loop = createScanLoop({
    ...{ everyMs: scanEveryMs, scan },
    onFailure(err) {
      if (!ended.signal.aborted) log.warn("the scan for due channels failed; it is repeated", { err });
    },
  });
  const pool = createJobPool({
    most: () => mostInAll,
    mostOfGroup: () => mostOfIntegration,
    pauseMs,
    onEnded() {
      if (!ended.signal.aborted) loop.wake();
    },
  });

  function isHeld(integration: string): boolean {
    const until = held.get(integration);
    if (until === undefined) return false;
    // A clock that was set back must not block an integration forever.
    if (until > world.now() && until <= world.now() + longestHoldMs) return true;
    held.delete(integration);
    return false;
  }

  /** Returns how many channels it began to work on. */
  async function scan(): Promise<number> {
    const lead = publicUrl() === "" ? undefined : await lease.hold();
    if (lead === undefined) return 0;
    if (performance.now() - connectionsScannedAt > connectionsEveryMs) {
      connectionsScannedAt = performance.now();
      await connectionScan.scanNext();
      await looks.look({ lease: lead, signal: ended.signal });
    }
    if (performance.now() - storeScannedAt < scanEveryMs) {
      const begun = beginWaiting();
      if (begun > 0 || (waiting.length > 0 && pool.size > 0)) return begun;
    }
    return scanStore();
  }

  /**
   * Begins channels that were due before and could not begin then. Saves a read of the store each time that a job ends.
   */
  function beginWaiting(): number {
    let begun = 0;
    const left: StoredChannel[] = [];
    for (const [i, channel] of waiting.entries()) {
      if (pool.size >= mostInAll) {
        left.push(...waiting.slice(i));
        break;
      }
      // The running job of a slot does everything that is due for it.
      if (pool.has(jobOf(channel).key)) continue;
      if (begin(channel)) begun += 1;
      else left.push(channel);
    }
    waiting = left;
    return begun;
  }

  async function scanStore(): Promise<number> {
    storeScannedAt = performance.now();
    const nowMs = world.now();
    let { from, to } = channelsDue(nowMs);
    let begun = 0;
    let isFirst = true;
    waiting = [];
    for (let seen = 0; seen < mostScanned && pool.size < mostInAll && !ended.signal.aborted; seen += pageSize) {
      const page = await store.list({ from, to, limit: pageSize });
      const [oldest] = page;
      if (isFirst) {
        metrics.channelsOverdue.set(oldest === undefined ? 0 : Math.max(0, nowMs - timeOfDueKey(oldest.key)) / 1_000);
      }
      isFirst = false;
      for (const channel of await channels.getMany(page.map(({ key }) => partsOf(key).slice(-2)))) {
        if (channel === undefined) continue;
        if (begin(channel.value)) begun += 1;
        else if (waiting.length < mostWaiting) waiting.push(channel.value);
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) break;
      from = after(last.key);
    }
    return begun;
  }

  /** False: the limits do not allow the channel's job now. */
  function begin(channel: StoredChannel): boolean {
    const job = jobOf(channel);
    if (!pool.mayBegin(job) || isHeld(job.group)) return false;
    pool.begin(job, async () => {
      try {
        const { retryAfterMs } = await calls.tend(placeOf(channel), ended.signal);
        if (retryAfterMs !== undefined) held.set(job.group, world.now() + Math.min(retryAfterMs, longestHoldMs));
      } catch (err) {
        if (ended.signal.aborted) return;
        pool.pause(job.key);
        const { environment, integration, id: connection } = placeOf(channel).ref;
        log.error("the work on a channel failed; it is repeated", { environment, integration, connection, err });
      }
    });
    return true;
  }

  return {
    start: () => loop.start(),
    async run() {
      connectionsScannedAt = Number.NEGATIVE_INFINITY;
      storeScannedAt = Number.NEGATIVE_INFINITY;
      while (!ended.signal.aborted) {
        // A scan that runs already, or beside a job, may have passed over channels that are due.
        await loop.idle();
        const wasIdle = pool.size === 0;
        const begun = await loop.scanNow();
        if (begun === 0 && wasIdle && pool.size === 0) return;
        await pool.oneEnded();
      }
    },
    async close() {
      ended.abort();
      await loop.stop();
      // Responses of providers are stored. A longer call has an unknown outcome, as after a crash.
      await Promise.race([pool.allEnded(), sleep(closeWithinMs, undefined, { ref: false })]);
      await lease.release();
    },
  };
}

/** Channels of one slot are one job: the job does everything that is due for the slot. */
function jobOf(channel: StoredChannel): Job {
  const place = placeOf(channel);
  const { environment, integration } = place.ref;
  return { key: partsOfPlace(place).join("\0"), group: `${environment}\0${integration}` };
}
