import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import { type Lease, LeaseLost } from "../../store/leases.ts";

/** Lengths that the lease of a renewal goes by. */
export interface RefreshLeaseTimes {
  /** A paused holder keeps the lease for this long. */
  readonly leaseMs: number;
  /** A holder that lives renews it so often. */
  readonly renewEveryMs: number;
  /** A holder whose session at the store is gone, and that has renewed nothing for so long, is dead. */
  readonly silenceMs: number;
}

/**
 * A pause of half a minute outlasts garbage collection, a frozen container and the move of a virtual machine. A process
 * that was killed leaves no session behind: others need not wait for the end of its lease, only for its silence.
 */
const usualLeaseMs = 30_000;
const longestRenewalPauseMs = 1_000;
const renewalsMissed = 3;

export function refreshLeaseTimes(leaseMs: number = usualLeaseMs): RefreshLeaseTimes {
  const renewEveryMs = Math.min(longestRenewalPauseMs, leaseMs / 3);
  return { leaseMs, renewEveryMs, silenceMs: renewalsMissed * renewEveryMs };
}

/** A lease that is renewed until its attempt is over. */
export interface KeptLease {
  readonly lease: Lease;
  /** False once another process may hold the lease: after a pause this is asked before anything is sent. */
  isOurs(): Promise<boolean>;
  /** The lease was given back together with the result. */
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
        /* The attempt is over. */
      });
      if (signal.aborted) return;
      try {
        await lease.renew();
      } catch (err) {
        // The answer still counts: it is written over nothing but what it replaces.
        log.debug("a lease was not renewed", { err });
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
      if (!isReleased) await lease.release().catch((err: unknown) => log.debug("a lease was not released", { err }));
    },
  };
  return kept;
}
