import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../../base/log.ts";
import { type Lease, LeaseLost } from "../../../store/leases.ts";

/** Durations of a refresh lease. */
export interface RefreshLeaseTimes {
  /** How long a paused holder keeps the lease. */
  readonly leaseMs: number;
  /** How often a live holder renews the lease. */
  readonly renewEveryMs: number;
  /** A holder without a session at the store, and without renewal for this long, is dead. */
  readonly silenceMs: number;
}

/**
 * Half a minute outlasts a pause by garbage collection, a frozen container or a virtual machine migration. A killed
 * process leaves no session behind. Others then wait only for its silence, not for the end of its lease.
 */
const usualLeaseMs = 30_000;
const longestRenewalPauseMs = 1_000;
const renewalsMissed = 3;

export function refreshLeaseTimes(leaseMs: number = usualLeaseMs): RefreshLeaseTimes {
  const renewEveryMs = Math.min(longestRenewalPauseMs, leaseMs / 3);
  return { leaseMs, renewEveryMs, silenceMs: renewalsMissed * renewEveryMs };
}

/** A lease that is renewed until its attempt ends. */
export interface KeptLease {
  readonly lease: Lease;
  /** False once another process may hold the lease. After a pause, check before sending anything. */
  isOurs(): Promise<boolean>;
  /** Called when the lease was released in the commit of the result. */
  onReleased(): void;
  end(): Promise<void>;
}

export function keepLease(lease: Lease, { renewEveryMs, log }: Pick<RefreshLeaseTimes, "renewEveryMs"> & { log: Log }) {
  let isReleased = false;
  const over = new AbortController();
  const { signal } = over;

  async function renewUntilOver(): Promise<void> {
    while (!signal.aborted) {
      await sleep(renewEveryMs, undefined, { signal }).catch(() => {
        /* The attempt has ended. */
      });
      if (signal.aborted) return;
      try {
        await lease.renew();
      } catch (err) {
        // The response still counts: its commit replaces only the credentials that it was requested for.
        log.debug("lease not renewed", { err });
        if (err instanceof LeaseLost) return;
      }
    }
  }
  void renewUntilOver();

  const kept: KeptLease = {
    lease,
    async isOurs() {
      if (lease.remainingMs() > 0) return true;
      try {
        await lease.renew();
        return true;
      } catch (error) {
        if (error instanceof LeaseLost) return false;
        throw error;
      }
    },
    onReleased() {
      isReleased = true;
    },
    async end() {
      over.abort();
      if (!isReleased)
        await lease.release().catch((err: unknown) => log.debug("lease not released; it expires by itself", { err }));
    },
  };
  return kept;
}
