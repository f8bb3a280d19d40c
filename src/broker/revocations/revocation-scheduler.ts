import { setTimeout as sleep } from "node:timers/promises";
import { createJobPool } from "../../base/job-pool.ts";
import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import { ownPartition, shareOf } from "../partitions/own-work.ts";
import type { Partitions } from "../partitions/partitions.ts";
import { shareWork } from "../partitions/work-under-way.ts";
import { type DueRevocations, groupOf, taskPartition } from "./due-revocations.ts";
import { refOf } from "./ended-revocation.ts";
import type { RevocationRunner } from "./revocation-runner.ts";

/** Carries out the stored revocations of this process's partitions. A restart continues where the process ended. */
export interface RevocationScheduler {
  start(): void;
  /** Does everything that is due now. */
  run(): Promise<void>;
  close(): Promise<void>;
}

interface RevocationSchedulerOptions {
  readonly partitions: Partitions;
  readonly due: DueRevocations;
  readonly runner: RevocationRunner;
  readonly world: World;
}

const scanEveryMs = 500;
/** A limit for all replicas together. */
const mostOfIntegration = 4;
const mostRunning = 16;
/** Pause after an error of Latchkey's own, such as an unavailable store. */
const pauseMs = 5_000;
const closeWithinMs = 10_000;

export function createRevocationScheduler(options: RevocationSchedulerOptions): RevocationScheduler {
  const { partitions, due, runner, world } = options;
  const { log } = world;
  const underWay = shareWork(partitions, () => {
    due.invalidate();
    loop.wake();
  });
  const stopping = new AbortController();
  const { signal } = stopping;

  const loop = createScanLoop({
    everyMs: scanEveryMs,
    isAtRest: () => !due.mayBeDue() && pool.size === 0,
    scan,
    onFailure(err) {
      due.invalidate();
      if (!signal.aborted) log.warn("could not scan for due revocations; will retry", { err });
    },
  });
  due.onDue(() => loop.stir());
  const pool = createJobPool({
    most: () => mostRunning,
    mostOfGroup: () => shareOf(partitions, mostOfIntegration),
    pauseMs,
    onEnded() {
      if (!signal.aborted) loop.wake();
    },
  });

  /** Returns how many tasks it began. */
  async function scan(): Promise<number> {
    if (!due.mayBeDue() && pool.size === 0) return 0;
    if (partitions.all().length === 0) return 0;
    if (pool.size === 0 && (await due.isEmpty())) return 0;
    if (!due.mayBeDue()) return 0;
    const tasks = await due.read(runner.isHeld);
    let begun = 0;
    for (const task of tasks) {
      const { environment, integration } = refOf(task);
      const group = groupOf(environment, integration);
      const job = { key: `${environment}\0${task.id}`, group };
      // While a provider is away, one task of an integration asks for all.
      const isFree = runner.mayBegin(group) && pool.mayBegin(job);
      const held = ownPartition(partitions, taskPartition(environment, task.id));
      if (signal.aborted) break;
      if (!isFree || held === undefined) {
        due.invalidate();
        continue;
      }
      runner.noteBegun(group);
      pool.begin(job, () => underWay.note(held.number, attempt(task, held)));
      begun += 1;
    }
    return begun;
  }

  async function attempt(task: RevocationTask, held: HeldPartition): Promise<void> {
    const { environment, integration, id: connection } = refOf(task);
    try {
      await runner.run(task, { partition: held, signal });
    } catch (err) {
      if (signal.aborted) return;
      due.invalidate();
      if (held.isLostBy(err)) {
        partitions.lost(held);
        return;
      }
      pool.pause(`${environment}\0${task.id}`);
      log.error("could not revoke a deleted connection; will retry", { environment, integration, connection, err });
    }
  }

  return {
    start: () => loop.start(),
    async run() {
      while (!signal.aborted) {
        await loop.idle();
        due.invalidate();
        const begun = await loop.scanNow();
        if (begun === 0 && pool.size === 0) return;
        await pool.oneEnded();
      }
    },
    async close() {
      stopping.abort();
      due.close();
      await loop.stop();
      await Promise.race([pool.allEnded(), sleep(closeWithinMs, undefined, { ref: false })]);
    },
  };
}
