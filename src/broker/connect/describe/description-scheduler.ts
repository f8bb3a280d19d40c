import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { createScanLoop } from "../../../base/scan-loop.ts";
import type { World } from "../../../base/world.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { partsOf } from "../../../store/keys.ts";
import type { HeldPartition } from "../../partitions/held-partition.ts";
import { ownPartition, shareOf } from "../../partitions/own-work.ts";
import { partitionOf } from "../../partitions/partition-of.ts";
import type { Partitions } from "../../partitions/partitions.ts";
import { shareWork } from "../../partitions/work-under-way.ts";
import type { ConnectionDescriber } from "./connection-describer.ts";
import { openDueDescriptions } from "./due-descriptions.ts";
import { createFailureLog, logFieldsOf } from "./failure-log.ts";
import { burstMs, createProviderQueues, type DueConnection, startEveryMs } from "./provider-queues.ts";

/**
 * Asks providers about the imported connections of this process's partitions, paced by provider. The store holds what is
 * left to ask, so that a restart continues where the process ended.
 */
export interface DescriptionScheduler {
  start(): void;
  /** Resolves when nothing is due any more that this replica may ask. */
  run(): Promise<void>;
  /** Waits a while for the requests that run. */
  close(): Promise<void>;
}

interface SchedulerOptions {
  readonly store: Store;
  readonly partitions: Partitions;
  readonly describer: ConnectionDescriber;
  readonly world: World;
}

const readEveryMs = 250;
const pauseAfterErrorMs = 5_000;
const closeWithinMs = 10_000;

export async function openDescriptionScheduler(options: SchedulerOptions): Promise<DescriptionScheduler> {
  const { store, partitions, describer, world } = options;
  const { metrics, log } = world;
  const underWay = shareWork(partitions, () => {
    due.invalidate();
    loop.wake();
  });
  const ended = new AbortController();
  const ofAll = (limit: number): number => shareOf(partitions, limit);
  const queues = createProviderQueues({ now: world.now, shareOf: ofAll, onFree: () => loop.wake() });
  const failureLog = createFailureLog(log);
  const loop = createScanLoop({
    everyMs: burstMs,
    isAtRest: () => !due.mayBeDue() && queues.isEmpty() && queues.running().length === 0,
    scan,
    onFailure(err) {
      due.invalidate();
      if (!ended.signal.aborted) log.warn("could not read imported connections to describe; will retry", { err });
    },
  });
  const due = await openDueDescriptions({ store, partitions, onDue: () => loop.stir(), world });
  let pausedUntil = 0;
  let readAgainAt = 0;
  let isForced = false;

  /** Starts what may start; returns how many requests were started. */
  async function scan(): Promise<number> {
    const now = performance.now();
    if (now < pausedUntil || partitions.all().length === 0) return 0;
    const isDue = due.mayBeDue();
    if (!isDue && !due.isCountStale() && queues.isEmpty()) return 0;
    if (queues.isEmpty() && queues.running().length === 0 && (await due.isEmpty())) return 0;
    await due.count(ended.signal);
    if (isDue && (now >= readAgainAt || isForced)) {
      readAgainAt = now + readEveryMs;
      queues.replace(await due.read(queues));
    }
    return ended.signal.aborted ? 0 : queues.startDue(begin);
  }

  async function begin(one: DueConnection): Promise<void> {
    const held = ownPartition(partitions, partitionOf(one.connection));
    if (held === undefined) due.invalidate();
    else await underWay.note(held.number, describe(one, held));
  }

  async function describe({ connection, provider }: DueConnection, held: HeldPartition): Promise<void> {
    const ref = refOf(connection);
    try {
      const { outcome, failure } = await describer.describe(ref, { partition: held, signal: ended.signal });
      if (outcome !== "obsolete") metrics.descriptions.inc({ outcome });
      if (failure === undefined) return;
      const { reason, retryAfterMs } = failure;
      if (retryAfterMs !== undefined) queues.hold(provider, retryAfterMs);
      failureLog.warn(ref, { reason, outcome });
    } catch (err) {
      if (ended.signal.aborted) return;
      if (held.isLostBy(err)) {
        partitions.lost(held);
        return;
      }
      due.invalidate();
      pausedUntil = performance.now() + pauseAfterErrorMs;
      log.error("could not describe an imported connection; will retry", { ...logFieldsOf(ref), err });
    }
  }

  /** Scans until nothing is due, running, or waiting for its pace. */
  async function scanAll(): Promise<void> {
    while (!ended.signal.aborted) {
      const started = await loop.scanNow();
      const running = queues.running();
      if (running.length > 0) await Promise.race(running);
      else if (started === 0 && !queues.isPaced()) return;
      else await sleep(startEveryMs);
    }
  }

  return {
    start: () => loop.start(),
    async run() {
      await loop.idle();
      due.invalidate();
      isForced = true;
      await scanAll().finally(() => {
        isForced = false;
      });
    },
    async close() {
      ended.abort();
      due.close();
      await loop.stop();
      await Promise.race([Promise.allSettled(queues.running()), sleep(closeWithinMs, undefined, { ref: false })]);
    },
  };
}

function refOf(connection: DueConnection["connection"]): ConnectionRef {
  const [environment = "", integration = "", id = ""] = partsOf(connection);
  return create(ConnectionRefSchema, { environment, integration, id });
}
