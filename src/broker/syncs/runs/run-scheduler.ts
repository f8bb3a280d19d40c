import { setTimeout as sleep } from "node:timers/promises";
import { createScanLoop } from "../../../base/scan-loop.ts";
import type { World } from "../../../base/world.ts";
import type { ScriptHost } from "../../../core/scripts/script.ts";
import type { Store } from "../../../store/contract.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import { shareOf, soleWork } from "../../partitions/own-work.ts";
import type { Partitions } from "../../partitions/partitions.ts";
import { openDueSight } from "../../stored/due-sight.ts";
import type { SyncCollections } from "../sync-collections.ts";
import { createSyncScan, type SyncScan } from "../sync-scan.ts";
import { createSyncSchedule } from "../sync-schedule.ts";
import { createDueRuns } from "./due-runs.ts";
import { followRuns } from "./follow-runs.ts";
import { createInterruptedRuns } from "./interrupted-runs.ts";
import { Interruption, type RunExecution } from "./run-execution.ts";
import { createRunPartitions, type RunPartitions } from "./run-partitions.ts";
import { createRunQueue } from "./run-queue.ts";
import { createRunningRuns, type RunLimits } from "./running-runs.ts";
import type { Runs } from "./runs.ts";

/**
 * Runs everything that is due for connections in this process's partitions. Each step is stored, so no work is lost with
 * the process: the next owner of a partition finds the runs that a process left behind.
 */
export interface RunScheduler {
  start(): void;
  /** Runs everything that is due now, and what becomes due as a result, without waiting for the next scan. */
  run(): Promise<void>;
  /** Waits a while for running runs, then stops them; the next owners of their partitions restart them. */
  close(): Promise<void>;
}

export const usualRunLimits: RunLimits = { atOnce: 16, atOncePerIntegration: 8 };

interface RunSchedulerOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly execution: RunExecution;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly limits: RunLimits;
  readonly partitions: Partitions;
  readonly world: World;
}

const scanEveryMs = 1_000;
const closeWithinMs = 2_000;

export async function openRunScheduler(options: RunSchedulerOptions): Promise<RunScheduler> {
  const { store, collections, scripts, partitions, world } = options;
  const ended = new AbortController();
  const syncScan = createSyncScan({ store, collections, scripts, world });
  const sight = await openDueSight({ store, spaces: ["run.queued", "sync.due"], world });
  let isClosing = false;

  const isOwn = (number: number): boolean => partitions.held(number) !== undefined;
  const { running, ours, due } = createRunWork(options, {
    ended: ended.signal,
    isClosing: () => isClosing,
    onEnded() {
      sight.look();
      wake();
    },
    isOwn,
  });
  partitions.listen({
    onTaken() {
      due.forget();
      sight.look();
      wake();
    },
    hasLongWork: running.hasSome,
    onLost: ({ number }) => running.endedOf(number),
  });
  const loop = createScanLoop({
    everyMs: scanEveryMs,
    scan,
    onInterval: due.checkSchedule,
    onFailure(err) {
      if (!ended.signal.aborted) world.log.warn("could not read due runs; will retry", { err });
    },
  });

  function wake(): void {
    if (!ended.signal.aborted) loop.wake();
  }

  const unsubscribe = scripts.onChange(() => {
    syncScan.restart();
    sight.look();
    world.metrics.scriptsBroken.set(scripts.broken().length);
    wake();
  });
  world.metrics.scriptsBroken.set(scripts.broken().length);

  const watch = await followRuns({ store, collections, due, running, isOwn, wake, world });

  /** Returns how many runs were queued or started. */
  async function scan(): Promise<number> {
    // Without scripts nothing can run.
    if (scripts.all().length === 0 || partitions.all().length === 0) return 0;
    await ours.takeUp();
    await scanSyncs(syncScan, partitions);
    if (running.count === 0 && !sight.mayBeDue()) return 0;
    const { count, isMoreDue } = await due.startAll();
    if (isMoreDue) wake();
    else if (count === 0 && running.count === 0) await sight.rest();
    return count;
  }

  return {
    start() {
      loop.start();
      wake();
    },
    async run() {
      syncScan.hurry();
      while (!ended.signal.aborted) {
        // A running scan would find no runs in a queue that is cleared during the scan.
        await loop.idle();
        due.forget();
        sight.look();
        const wasIdle = running.count === 0;
        const count = await loop.scanNow();
        if (count === 0 && wasIdle && running.count === 0) return;
        await running.oneEnded();
      }
    },
    async close() {
      isClosing = true;
      unsubscribe();
      await loop.stop();
      await Promise.race([running.allEnded(), sleep(closeWithinMs, undefined, { ref: false })]);
      ended.abort(new Interruption());
      await running.allEnded();
      watch.close();
      sight.close();
    },
  };
}

/** Looks for connections without their syncs, in one process for all. */
async function scanSyncs(syncScan: SyncScan, partitions: Partitions): Promise<void> {
  const sole = soleWork(partitions, "sync-scan");
  if (sole === undefined) return;
  try {
    await syncScan.scanWhenDue(sole);
  } catch (error) {
    if (!sole.isLostBy(error)) throw error;
    partitions.lost(sole);
  }
}

interface RunWorkContext {
  readonly ended: AbortSignal;
  readonly isClosing: () => boolean;
  /** A run has ended, and another may start. */
  readonly onEnded: () => void;
  readonly isOwn: (partition: number) => boolean;
}

/** The runs of this process, the partitions whose runs it may start, and what is due of them. */
function createRunWork(options: RunSchedulerOptions, { ended, isClosing, onEnded, isOwn }: RunWorkContext) {
  const { store, collections, scripts, runs, execution, partitions, destinations, limits, world } = options;
  const interrupted = createInterruptedRuns({ store, collections, runs, world });
  const running = createRunningRuns({
    execution,
    limits,
    partitions: () => ours,
    shareOf: (limit) => shareOf(partitions, limit),
    ended,
    onEnded,
    world,
  });
  const ours: RunPartitions = createRunPartitions({
    partitions,
    interrupted,
    stoppedEnded: running.stoppedEnded,
    isRunningHere: running.has,
  });
  const due = createDueRuns({
    schedule: createSyncSchedule({
      store,
      collections,
      scripts,
      runs,
      partitions: ours,
      destinations,
      ended,
      world,
    }),
    queue: createRunQueue({ store, collections, isOwn }),
    running,
    isClosing,
    world,
  });
  return { running, ours, due };
}
