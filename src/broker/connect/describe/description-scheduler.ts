import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { createScanLoop } from "../../../base/scan-loop.ts";
import type { World } from "../../../base/world.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { createHeldLease } from "../../../store/held-lease.ts";
import { partsOf } from "../../../store/keys.ts";
import type { Lease } from "../../../store/leases.ts";
import type { ConnectionDescriber } from "./connection-describer.ts";
import { openDueDescriptions } from "./due-descriptions.ts";
import { createFailureLog, logFieldsOf } from "./failure-log.ts";
import { burstMs, createProviderQueues, type DueConnection, startEveryMs } from "./provider-queues.ts";

/**
 * Asks providers about imported connections, paced by provider: one replica for all. The store holds what is left to
 * ask, so that a restart continues where the process ended.
 */
export interface DescriptionScheduler {
  /** Starts work, as soon as this replica has the lease. */
  start(): void;
  /** Resolves when nothing is due any more that this replica may ask. */
  run(): Promise<void>;
  /** Waits a while for the requests that run. */
  close(): Promise<void>;
}

interface SchedulerOptions {
  readonly store: Store;
  readonly describer: ConnectionDescriber;
  readonly world: World;
}

const leaseMs = 15_000;
const readEveryMs = 250;
const takeEveryMs = 1_000;
const pauseAfterErrorMs = 5_000;
const closeWithinMs = 10_000;

export async function openDescriptionScheduler(options: SchedulerOptions): Promise<DescriptionScheduler> {
  const { store, describer, world } = options;
  const { metrics, log } = world;
  const lease = createHeldLease({ store, name: "descriptions", lengthMs: leaseMs, onLost: () => forget() });
  const ended = new AbortController();
  const queues = createProviderQueues({ now: world.now, onFree: () => loop.wake() });
  const failureLog = createFailureLog(log);
  const due = await openDueDescriptions({ store, world });
  let pausedUntil = 0;
  let takeAgainAt = 0;
  let readAgainAt = 0;
  let isForced = false;
  const loop = createScanLoop({
    everyMs: burstMs,
    scan,
    onFailure(err) {
      due.invalidate();
      if (!ended.signal.aborted) log.warn("could not read imported connections to describe; will retry", { err });
    },
  });

  function forget(): void {
    queues.clear();
    due.invalidate();
    metrics.descriptionsWaiting.set(0);
  }

  /** Starts what may start; returns how many requests were started. */
  async function scan(): Promise<number> {
    const now = performance.now();
    if (now < pausedUntil || (now < takeAgainAt && !isForced)) return 0;
    const isDue = due.mayBeDue();
    if (!isDue && !due.isCountStale() && queues.isEmpty()) return 0;
    // Taking the lease, and renewing it, would cost commits uselessly while nothing is queued.
    if (queues.isEmpty() && queues.running().length === 0 && (await due.isEmpty())) return 0;
    const taken = await lease.hold();
    if (taken === undefined) {
      takeAgainAt = now + takeEveryMs;
      return 0;
    }
    await due.count(ended.signal);
    if (isDue && (now >= readAgainAt || isForced)) {
      readAgainAt = now + readEveryMs;
      queues.replace(await due.read(queues));
    }
    return ended.signal.aborted ? 0 : queues.startDue((one) => describe(one, taken));
  }

  async function describe({ connection, provider }: DueConnection, taken: Lease): Promise<void> {
    const ref = refOf(connection);
    try {
      const { outcome, failure } = await describer.describe(ref, { lease: taken, signal: ended.signal });
      if (outcome !== "obsolete") metrics.descriptions.inc({ outcome });
      if (failure === undefined) return;
      const { reason, retryAfterMs } = failure;
      if (retryAfterMs !== undefined) queues.hold(provider, retryAfterMs);
      failureLog.warn(ref, { reason, outcome });
    } catch (err) {
      if (ended.signal.aborted) return;
      if (taken.isLostBy(err)) {
        lease.lost(taken);
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
      await lease.release();
    },
  };
}

function refOf(connection: DueConnection["connection"]): ConnectionRef {
  const [environment = "", integration = "", id = ""] = partsOf(connection);
  return create(ConnectionRefSchema, { environment, integration, id });
}
