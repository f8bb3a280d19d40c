import { setTimeout as sleep } from "node:timers/promises";
import { createScanLoop } from "../../../base/scan-loop.ts";
import type { World } from "../../../base/world.ts";
import type { ScriptHost } from "../../../core/scripts/script.ts";
import type { Store } from "../../../store/contract.ts";
import { createHeldLease } from "../../../store/held-lease.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import type { SyncCollections } from "../sync-collections.ts";
import { createSyncScan } from "../sync-scan.ts";
import { createSyncSchedule } from "../sync-schedule.ts";
import { createDueRuns } from "./due-runs.ts";
import { followRuns } from "./follow-runs.ts";
import { createInterruptedRuns } from "./interrupted-runs.ts";
import { Interruption, type RunExecution } from "./run-execution.ts";
import { createRunQueue } from "./run-queue.ts";
import { createRunningRuns, type RunLimits } from "./running-runs.ts";
import type { Runs } from "./runs.ts";

/**
 * Runs everything that is due, in one replica for all. Each step is stored, so no work is lost with the process: the
 * next holder of the lease finds the runs that a process left behind.
 */
export interface RunScheduler {
  /** Starts as soon as this replica has the lease. */
  start(): void;
  /** Runs everything that is due now, and what becomes due as a result, without waiting for the next scan. */
  run(): Promise<void>;
  /** Waits a while for running runs, then stops them; the next holder of the lease restarts them. */
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
  readonly leaseMs?: number | undefined;
  readonly world: World;
}

const defaultLeaseMs = 15_000;
const scanEveryMs = 1_000;
const closeWithinMs = 2_000;

export async function openRunScheduler(options: RunSchedulerOptions): Promise<RunScheduler> {
  const { store, collections, scripts, runs, execution, destinations, limits, world } = options;
  const { leaseMs = defaultLeaseMs } = options;
  const ended = new AbortController();
  const interrupted = createInterruptedRuns({ store, collections, runs, world });
  const syncScan = createSyncScan({ store, collections, scripts, world });
  let isClosing = false;

  const lease = createHeldLease({
    store,
    name: "runs",
    lengthMs: leaseMs,
    async onTaken(taken) {
      due.forget();
      // Runs that were stopped while another replica had the lease are about to end.
      await running.stoppedEnded();
      await interrupted.endAll(taken, running.has);
    },
    // The replica that has the lease now treats the runs of this one as interrupted: they can write nothing more.
    onLost: () => running.interruptAll(),
  });
  const running = createRunningRuns({ execution, limits, lease, ended: ended.signal, onEnded: wake, world });
  const due = createDueRuns({
    schedule: createSyncSchedule({ store, collections, scripts, runs, destinations, ended: ended.signal, world }),
    queue: createRunQueue({ store, collections }),
    running,
    isClosing: () => isClosing,
    world,
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
    world.metrics.scriptsBroken.set(scripts.broken().length);
    wake();
  });
  world.metrics.scriptsBroken.set(scripts.broken().length);

  const watch = await followRuns({ store, collections, due, running, wake, world });

  /** Returns how many runs were queued or started. */
  async function scan(): Promise<number> {
    // Without scripts nothing can run, and renewing the lease would cost commits.
    const held = scripts.all().length === 0 ? undefined : await lease.hold();
    if (held === undefined) return 0;
    try {
      await syncScan.scanWhenDue(held);
      const { count, isMoreDue } = await due.startAll(held);
      if (isMoreDue) wake();
      return count;
    } catch (error) {
      if (!held.isLostBy(error)) throw error;
      lease.lost(held);
      return 0;
    }
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
      await lease.release();
    },
  };
}
