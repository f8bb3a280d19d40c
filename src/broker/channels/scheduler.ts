import { setTimeout as sleep } from "node:timers/promises";
import { createJobPool } from "../../base/job-pool.ts";
import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import { shareOf, soleWork } from "../partitions/own-work.ts";
import type { Partitions } from "../partitions/partitions.ts";
import { shareWork } from "../partitions/work-under-way.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { openDueSight } from "../stored/due-sight.ts";
import type { ChannelCalls } from "./calls.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import type { ChannelScans } from "./channel-scans.ts";
import { createConnectionScan } from "./connection-scan.ts";
import { createDueChannels } from "./due-channels.ts";
import type { ChannelSlots } from "./slots.ts";
import type { ChannelTokens } from "./tokens.ts";

/**
 * Works on the channels of this process's partitions that are due (to create, renew, stop). Bounded for each integration,
 * and stopped for an integration whose provider said to come back later. Each step is stored, so no work is lost with
 * the process.
 */
export interface ChannelScheduler {
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
  readonly tokens: ChannelTokens;
  readonly partitions: Partitions;
  readonly scans: ChannelScans;
  readonly providers: Providers;
  /** Empty until the listeners are open: before that, providers cannot be given a webhook URL. */
  readonly publicUrl: () => string;
  readonly world: World;
}

const scanEveryMs = 1_000;
/**
 * A limit for all replicas together. At 0.2 s a call these make 20 calls a second: below what providers allow an app, and
 * 1,000 channels in a minute.
 */
const mostOfIntegration = 4;
const mostRunning = 32;
/** Pause after an error of Latchkey's own, such as an unavailable store. */
const pauseMs = 5_000;
const closeWithinMs = 10_000;
const connectionsEveryMs = 60_000;

export async function openChannelScheduler(options: ChannelSchedulerOptions): Promise<ChannelScheduler> {
  const { store, collections, slots, calls, tokens, partitions, scans, providers, publicUrl, world } = options;
  const { log } = world;
  const underWay = shareWork(partitions, () => {
    due.readAgain();
    sight.look();
    loop.wake();
  });
  const sight = await openDueSight({ store, spaces: ["channel.due"], world });
  const connectionScan = createConnectionScan({ collections, slots, providers, world });
  const stopping = new AbortController();
  const { signal } = stopping;
  let connectionsScannedAt = Number.NEGATIVE_INFINITY;

  const loop = createScanLoop({
    everyMs: scanEveryMs,
    scan,
    onFailure(err) {
      if (!signal.aborted) log.warn("could not scan for due channels; will retry", { err });
    },
  });
  const pool = createJobPool({
    most: () => mostRunning,
    mostOfGroup: () => shareOf(partitions, mostOfIntegration),
    pauseMs,
    onEnded() {
      sight.look();
      if (!signal.aborted) loop.wake();
    },
  });
  const due = createDueChannels({
    store,
    collections,
    calls,
    tokens,
    partitions,
    underWay,
    pool,
    mostRunning,
    readEveryMs: scanEveryMs,
    signal,
    world,
  });

  /** Returns how many channels it began to work on. */
  async function scan(): Promise<number> {
    if (publicUrl() === "" || partitions.all().length === 0) return 0;
    const sole = soleWork(partitions, "channel-scan");
    if (sole !== undefined && performance.now() - connectionsScannedAt > connectionsEveryMs) {
      connectionsScannedAt = performance.now();
      await connectionScan.scanNext();
      await scans.scanNext({ partition: sole, signal });
    }
    if (pool.size === 0 && !sight.mayBeDue()) return 0;
    const begun = await due.begin();
    if (begun === 0 && pool.size === 0) await sight.rest();
    return begun;
  }

  return {
    start: () => loop.start(),
    async run() {
      connectionsScannedAt = Number.NEGATIVE_INFINITY;
      due.readAgain();
      sight.look();
      while (!signal.aborted) {
        // A scan that runs already, or beside a job, may have passed over channels that are due.
        await loop.idle();
        const wasIdle = pool.size === 0;
        const begun = await loop.scanNow();
        if (begun === 0 && wasIdle && pool.size === 0) return;
        await pool.oneEnded();
      }
    },
    async close() {
      stopping.abort();
      sight.close();
      await loop.stop();
      // Responses of providers are stored. A longer call has an unknown outcome, as after a crash.
      await Promise.race([pool.allEnded(), sleep(closeWithinMs, undefined, { ref: false })]);
    },
  };
}
