import { setTimeout as sleep } from "node:timers/promises";
import { createJobPool, type Job } from "../../../base/job-pool.ts";
import { createScanLoop } from "../../../base/scan-loop.ts";
import type { World } from "../../../base/world.ts";
import type { ScriptHost } from "../../../core/scripts/script.ts";
import { runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { Run_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { createHeldLease } from "../../../store/held-lease.ts";
import { partsOf } from "../../../store/keys.ts";
import type { Lease } from "../../../store/leases.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import type { SyncCollections } from "../sync-collections.ts";
import { createSyncScan } from "../sync-scan.ts";
import { createSyncSchedule } from "../sync-schedule.ts";
import { createInterruptedRuns } from "./interrupted-runs.ts";
import { Interruption, type RunExecution } from "./run-execution.ts";
import { createRunPace } from "./run-pace.ts";
import { createRunQueue, type QueuedRun } from "./run-queue.ts";
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

export interface RunLimits {
  readonly atOnce: number;
  readonly atOncePerIntegration: number;
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
/** Pause of a lane after a run that could not be ended properly. */
const pauseMs = 5_000;
const closeWithinMs = 2_000;

export async function openRunScheduler(options: RunSchedulerOptions): Promise<RunScheduler> {
  const { store, collections, scripts, runs, execution, destinations, limits, world } = options;
  const { leaseMs = defaultLeaseMs } = options;
  const { metrics, log } = world;
  const ended = new AbortController();
  const interrupted = createInterruptedRuns({ store, collections, runs, world });
  const syncScan = createSyncScan({ store, collections, scripts, world });
  const schedule = createSyncSchedule({
    ...{ store, collections, scripts, runs, destinations, world },
    ended: ended.signal,
  });
  const queue = createRunQueue({ store, collections });
  const pace = createRunPace();
  /** Runs of this process by id, each with the controller that stops the run. */
  const stops = new Map<string, AbortController>();
  let isClosing = false;
  let isScheduleDue = true;

  const lease = createHeldLease({
    ...{ store, name: "runs", lengthMs: leaseMs },
    async onTaken(taken) {
      forgetQueue();
      // Runs that were stopped while another replica had the lease are about to end.
      if ([...stops.values()].some(({ signal }) => signal.aborted)) await stoppedEnded();
      await interrupted.endAll(taken, (id) => stops.has(id));
    },
    onLost() {
      // The replica that has the lease now treats the runs of this one as interrupted: they can write nothing more.
      for (const stop of stops.values()) stop.abort(new Interruption());
    },
  });
  const loop = createScanLoop({
    ...{ everyMs: scanEveryMs, scan },
    onInterval() {
      isScheduleDue = true;
    },
    onFailure(err) {
      if (!ended.signal.aborted) log.warn("the scan for due runs failed; it is repeated", { err });
    },
  });
  const pool = createJobPool({
    most: () => limits.atOnce,
    mostOfGroup: () => limits.atOncePerIntegration,
    pauseMs,
    onEnded: wake,
  });

  function wake(): void {
    if (!ended.signal.aborted) loop.wake();
  }

  const unsubscribe = scripts.onChange(() => {
    syncScan.restart();
    metrics.scriptsBroken.set(scripts.broken().length);
    wake();
  });
  metrics.scriptsBroken.set(scripts.broken().length);

  const watch = await follow({
    store,
    world,
    spaces: ["run", "run.queued"],
    read: async () => () => {
      forgetQueue();
      wake();
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        if (!change.key.startsWith("run")) continue;
        const [space, , id = ""] = partsOf(change.key);
        if (space === "run.queued" && change.value !== undefined) {
          queue.heard(change.key);
          isScheduleDue = true;
          wake();
        }
        // Only runs of this process are decrypted.
        if (space === "run" && stops.has(id)) stopIfWanted(id, collections.runs.read(change, revision)?.value);
      }
    },
  });

  function stopIfWanted(id: string, run: StoredRun | undefined): void {
    if (run?.cancelling === true) stops.get(id)?.abort();
    // Another replica has ended the run as interrupted, and may have restarted it.
    else if (run !== undefined && runOf(run).state === Run_State.INTERRUPTED) stops.get(id)?.abort(new Interruption());
  }

  /** Resolves when every stopped run of this process has ended. */
  async function stoppedEnded(): Promise<void> {
    while ([...stops.values()].some(({ signal }) => signal.aborted)) await pool.oneEnded();
  }

  /** Returns how many runs were queued or started. */
  async function scan(): Promise<number> {
    // Without scripts nothing can run, and renewing the lease would cost commits.
    const held = scripts.all().length === 0 ? undefined : await lease.hold();
    if (held === undefined) return 0;
    try {
      const nowMs = world.now();
      await syncScan.scanWhenDue(held);
      // The schedule first: a sync that is triggered and due at once runs once.
      const isDue = isScheduleDue;
      isScheduleDue = false;
      const count = isDue ? await schedule.queueDue(nowMs, held) : 0;
      return count + (await beginDue(nowMs, held));
    } catch (error) {
      if (!held.isLostBy(error)) throw error;
      lease.lost(held);
      return 0;
    }
  }

  async function beginDue(nowMs: number, held: Lease): Promise<number> {
    await queue.look(nowMs);
    metrics.runsOverdue.set(queue.overdueMs(nowMs) / 1_000);
    const until = performance.now() + scanEveryMs;
    for (let count = 0; ; count += 1) {
      const next = queue.take((run) => !stops.has(run.id) && pool.mayBegin(jobOf(run)));
      if (next === undefined) return count;
      await pace.turn();
      // The run stays queued in the store.
      if (isClosing) return count;
      pool.begin(jobOf(next), () => execute(next, held));
      // However many runs are due, each scan renews the lease and queues what has become due.
      if (performance.now() < until) continue;
      wake();
      return count + 1;
    }
  }

  async function execute({ environment, id, lane }: QueuedRun, held: Lease): Promise<void> {
    const stop = new AbortController();
    stops.set(id, stop);
    metrics.runsOpen.inc();
    const signal = AbortSignal.any([stop.signal, ended.signal]);
    try {
      await execution.execute({ environment, id }, { fence: held.fence, signal });
    } catch (err) {
      if (ended.signal.aborted) return;
      if (held.isLostBy(err)) return lease.lost(held);
      pool.pause(lane);
      // The store still says `running`. Without the lease, its next holder (this replica, perhaps) finds the run.
      lease.forget();
      log.error("a run did not end properly; it is restarted", { run: id, err });
    } finally {
      stops.delete(id);
      metrics.runsOpen.dec();
    }
  }

  /** The next scan reads everything that is due from the store. */
  function forgetQueue(): void {
    queue.forget();
    isScheduleDue = true;
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
        forgetQueue();
        const wasIdle = pool.size === 0;
        const count = await loop.scanNow();
        if (count === 0 && wasIdle && pool.size === 0) return;
        await pool.oneEnded();
      }
    },
    async close() {
      isClosing = true;
      unsubscribe();
      await loop.stop();
      await Promise.race([pool.allEnded(), sleep(closeWithinMs, undefined, { ref: false })]);
      ended.abort(new Interruption());
      await pool.allEnded();
      watch.close();
      await lease.release();
    },
  };
}

const jobOf = ({ lane, integration }: QueuedRun): Job => ({ key: lane, group: integration });
