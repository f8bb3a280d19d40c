import { createJobPool, type Job } from "../../../base/job-pool.ts";
import type { World } from "../../../base/world.ts";
import { runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { Run_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { HeldPartition } from "../../partitions/held-partition.ts";
import { createWorkUnderWay } from "../../partitions/work-under-way.ts";
import { Interruption, type RunExecution } from "./run-execution.ts";
import type { RunPartitions } from "./run-partitions.ts";
import type { QueuedRun } from "./run-queue.ts";

/** The runs of this process, within the limits of concurrent runs. */
export interface RunningRuns {
  readonly count: number;
  has(id: string): boolean;
  /** Whether the limits allow the run to start, and its partition belongs to this process. */
  mayStart(run: QueuedRun): boolean;
  start(run: QueuedRun): void;
  /** Stops a run whose record says so: a caller cancelled it, or another replica ended it as interrupted. */
  follow(id: string, run: StoredRun | undefined): void;
  /** Resolves when every stopped run has ended. */
  stoppedEnded(): Promise<void>;
  /** Resolves when one of the runs has ended; at once if none is left. */
  oneEnded(): Promise<void>;
  allEnded(): Promise<void>;
  /** Whether a run of the partition is under way. */
  hasSome(partition: number): boolean;
  /** Resolves when all runs of the partition that run now have ended. */
  endedOf(partition: number): Promise<unknown>;
}

export interface RunLimits {
  /** A limit for each replica. */
  readonly atOnce: number;
  /** A limit for all replicas together. */
  readonly atOncePerIntegration: number;
}

interface RunningRunsOptions {
  readonly execution: RunExecution;
  readonly limits: RunLimits;
  readonly partitions: () => Pick<RunPartitions, "of" | "lost" | "lookAgain">;
  /** Returns this process's part of a limit that holds for all replicas together. */
  readonly shareOf: (limit: number) => number;
  /** The process stops: no run continues. */
  readonly ended: AbortSignal;
  /** A run has ended, and another may start. */
  readonly onEnded: () => void;
  readonly world: World;
}

/** Pause of a lane after a run that could not be ended properly. */
const pauseMs = 5_000;

export function createRunningRuns(options: RunningRunsOptions): RunningRuns {
  const { execution, limits, partitions, shareOf, ended, onEnded, world } = options;
  const { metrics, log } = world;
  /** Controllers that stop the runs, by the id of the run. */
  const stops = new Map<string, AbortController>();
  const underWay = createWorkUnderWay();
  const pool = createJobPool({
    most: () => limits.atOnce,
    mostOfGroup: () => shareOf(limits.atOncePerIntegration),
    pauseMs,
    onEnded,
  });

  async function execute({ environment, id, lane }: QueuedRun, held: HeldPartition): Promise<void> {
    const stop = new AbortController();
    stops.set(id, stop);
    metrics.runsOpen.inc();
    const signal = AbortSignal.any([stop.signal, ended]);
    try {
      await execution.execute({ environment, id }, { fence: held.fence, signal });
    } catch (err) {
      if (ended.aborted) return;
      if (held.isLostBy(err)) return partitions().lost(held);
      pool.pause(lane);
      // The store still says `running`.
      partitions().lookAgain(held);
      log.error("could not end a run; restarting it", { run: id, err });
    } finally {
      stops.delete(id);
      metrics.runsOpen.dec();
    }
  }

  return {
    get count() {
      return pool.size;
    },
    has: (id) => stops.has(id),
    mayStart: (run) => !stops.has(run.id) && partitions().of(run.partition) !== undefined && pool.mayBegin(jobOf(run)),
    start(run) {
      const held = partitions().of(run.partition);
      if (held !== undefined) pool.begin(jobOf(run), () => underWay.note(run.partition, execute(run, held)));
    },
    follow(id, run) {
      if (run?.cancelling === true) stops.get(id)?.abort();
      // Another replica has ended the run as interrupted, and may have restarted it.
      else if (run !== undefined && runOf(run).state === Run_State.INTERRUPTED) {
        stops.get(id)?.abort(new Interruption());
      }
    },
    async stoppedEnded() {
      while ([...stops.values()].some(({ signal }) => signal.aborted)) await pool.oneEnded();
    },
    oneEnded: pool.oneEnded,
    allEnded: pool.allEnded,
    hasSome: underWay.hasSome,
    endedOf: underWay.endedOf,
  };
}

const jobOf = ({ lane, integration }: QueuedRun): Job => ({ key: lane, group: integration });
