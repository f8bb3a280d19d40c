import type { World } from "../../../base/world.ts";
import type { SyncSchedule } from "../sync-schedule.ts";
import { createRunPace } from "./run-pace.ts";
import type { RunQueue } from "./run-queue.ts";
import type { RunningRuns } from "./running-runs.ts";

/** Everything that is due: queues runs of due syncs, and starts queued runs within the limits, one after another. */
export interface DueRuns {
  startAll(): Promise<DueRound>;
  /** Adds a newly queued run by its key in `run.queued`; its sync may be due again. */
  add(key: string, partition: number | undefined): void;
  /** Forgets a run that is not queued any more. */
  remove(key: string): void;
  /** Looks for due syncs in the next round. Other rounds skip that: it reads the store. */
  checkSchedule(): void;
  /** Drops all known runs: the next round reads everything that is due from the store. */
  forget(): void;
}

export interface DueRound {
  /** How many runs were queued or started. */
  readonly count: number;
  /** The round was over before the queue was empty: another one must follow at once. */
  readonly isMoreDue: boolean;
}

interface DueRunsOptions {
  readonly schedule: SyncSchedule;
  readonly queue: RunQueue;
  readonly running: RunningRuns;
  readonly isClosing: () => boolean;
  readonly world: World;
}

/** Length of a round: however many runs are due, due syncs must be queued between rounds. */
const roundMs = 1_000;

export function createDueRuns({ schedule, queue, running, isClosing, world }: DueRunsOptions): DueRuns {
  const pace = createRunPace();
  let isScheduleDue = true;

  async function startQueued(nowMs: number): Promise<DueRound> {
    await queue.refresh(nowMs);
    world.metrics.runsOverdue.set(queue.overdueMs(nowMs) / 1_000);
    const until = performance.now() + roundMs;
    for (let count = 0; ; count += 1) {
      const next = queue.take(running.mayStart);
      if (next === undefined) return { count, isMoreDue: false };
      await pace.wait();
      // The run stays queued in the store.
      if (isClosing()) return { count, isMoreDue: false };
      running.start(next);
      if (performance.now() >= until) return { count: count + 1, isMoreDue: true };
    }
  }

  return {
    async startAll() {
      const nowMs = world.now();
      // The schedule first: a sync that is triggered and due at once runs once.
      const isDue = isScheduleDue;
      isScheduleDue = false;
      const queued = isDue ? await schedule.queueDue(nowMs) : 0;
      const { count, isMoreDue } = await startQueued(nowMs);
      return { count: queued + count, isMoreDue };
    },
    add(key, partition) {
      queue.add(key, partition);
      isScheduleDue = true;
    },
    remove: queue.remove,
    checkSchedule() {
      isScheduleDue = true;
    },
    forget() {
      queue.forget();
      isScheduleDue = true;
    },
  };
}
