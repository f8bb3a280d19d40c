import type { World } from "../base/world.ts";
import type { Store } from "../store/contract.ts";
import { createHeldLease } from "../store/held-lease.ts";
import type { Lease } from "../store/leases.ts";
import type { SessionCallers } from "./access-sessions/session-callers.ts";
import { createSessionSweep } from "./access-sessions/session-sweep.ts";
import { createApprovalSweep } from "./approvals/approval-sweep.ts";
import type { Audit } from "./audit/audit.ts";
import type { Logs } from "./audit/logs.ts";
import type { Collections } from "./collections.ts";
import { createConnectSweep } from "./connect/expired-sessions.ts";
import { createInterruptedSweep } from "./connect/interrupted-authorizations.ts";
import type { ConnectionHealth } from "./connections/health/health.ts";
import { createHealthScan } from "./connections/health/health-scan.ts";
import type { IdleRefresh } from "./credentials/idle-refresh.ts";
import type { Destinations } from "./deliveries/destinations.ts";
import { createDeliverySweep } from "./deliveries/retention.ts";
import { createDeletionSweep } from "./end-users/deletion-retention.ts";
import { createLogSweep, type LogRetention } from "./log-retention.ts";
import { createRecordSweep } from "./records/record-retention.ts";
import { createRevocationSweep } from "./revocations/revocation-retention.ts";
import type { Integrations } from "./setup/integrations.ts";
import type { Providers } from "./setup/providers.ts";
import { createRunSweep } from "./syncs/runs/run-retention.ts";

export interface RetentionPeriods extends LogRetention {
  /** Retention of notifications and their forwards. */
  readonly deliveriesMs: number;
  /** Retention of deleted records, and of records that no run has used. */
  readonly recordsMs: number;
}

/**
 * Work that is due only because time passes: deletes old logs, notes expired credentials, refreshes idle refresh
 * tokens, and ends abandoned connect sessions. One replica does this work for all, except for the refreshes.
 */
export interface Housekeeping {
  retain(retention: RetentionPeriods): void;
  /** Runs a round now, instead of within a minute. */
  run(): Promise<void>;
  /** Waits for the running commit. */
  close(): Promise<void>;
}

interface HousekeepingOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly idleRefresh: IdleRefresh;
  readonly retention: RetentionPeriods;
  readonly destinations: Pick<Destinations, "isCurrent">;
  readonly logs: Logs;
  readonly audit: Audit;
  readonly sessionCallers: SessionCallers;
  readonly world: World;
}

const everyMs = 60_000;
/** The lease is kept between rounds, so that another replica soon replaces a holder that stops without notice. */
const leaseMs = 4 * everyMs;

export function startHousekeeping(options: HousekeepingOptions): Housekeeping {
  const { store, collections, health, integrations, providers, idleRefresh, destinations, world } = options;
  const healthSweep = createHealthScan({ store, collections, health, integrations, providers, world });
  const logSweep = createLogSweep({ store, collections });
  const deliverySweep = createDeliverySweep({ store, collections });
  const runSweep = createRunSweep({ store, collections, destinations });
  const recordSweep = createRecordSweep({ store, collections, world });
  const lease = createHeldLease({
    store,
    name: "housekeeping",
    lengthMs: leaseMs,
    // The previous holder of the lease has deleted logs that were counted here.
    onTaken: () => logSweep.forget(),
  });
  const deletionSweep = createDeletionSweep({ store, collections, world });
  const revocationSweep = createRevocationSweep({ store, collections, world });
  const connectSweep = createConnectSweep({ store, collections, world });
  const interruptedSweep = createInterruptedSweep({ store, collections, logs: options.logs, world });
  const accessSessionSweep = createSessionSweep({ store, collections, memory: options.sessionCallers, world });
  const approvalSweep = createApprovalSweep({ store, collections, audit: options.audit, world });
  const ended = new AbortController();
  let { retention } = options;
  let round: Promise<void> | undefined;
  const timer = setInterval(() => void run(), everyMs);
  timer.unref();

  function run(): Promise<void> {
    // A round that takes longer than the interval is not joined by a second one.
    round ??= keep()
      .catch((err: unknown) => {
        if (!ended.signal.aborted) world.log.warn("housekeeping failed; will retry", { err });
      })
      .finally(() => {
        round = undefined;
      });
    return round;
  }

  async function keep(): Promise<void> {
    const { signal } = ended;
    const held = await lease.hold();
    if (held !== undefined) await healthSweep(signal);
    await idleRefresh.step(signal);
    // The refreshes may have taken long.
    const kept = await lease.hold();
    if (kept !== undefined) await sweep(kept, signal);
  }

  async function sweep(held: Lease, signal: AbortSignal): Promise<void> {
    await interruptedSweep(signal);
    await connectSweep(signal);
    await accessSessionSweep(signal);
    await approvalSweep(signal);
    await revocationSweep(signal);
    await deletionSweep();
    const deleted = await logSweep.sweep({ retention, nowMs: world.now(), lease: held, signal });
    world.metrics.logsDeleted.inc(deleted);
    await deliverySweep({ maxAgeMs: retention.deliveriesMs, nowMs: world.now(), lease: held, signal });
    await runSweep({ maxAgeMs: retention.maxAgeMs, nowMs: world.now(), lease: held, signal });
    await recordSweep({ maxAgeMs: retention.recordsMs, nowMs: world.now(), lease: held, signal });
  }

  return {
    retain(wanted) {
      retention = wanted;
    },
    run,
    async close() {
      clearInterval(timer);
      ended.abort();
      await round;
      await lease.release();
    },
  };
}
