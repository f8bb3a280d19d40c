import type { Store } from "./contract.ts";
import { noteKeptLease } from "./kept-leases.ts";
import { createLeases, type Lease, LeaseLost } from "./leases.ts";

/** A lease that one of several replicas holds and keeps: taken when free, and renewed in time. */
export interface HeldLease {
  /** Returns the lease if this process holds it now. Call often enough to keep it from expiring. */
  hold(): Promise<Lease | undefined>;
  /** Drops the lease as if another replica had taken it: it is retaken after it expires, and `onTaken` runs again. */
  forget(): void;
  /** Called when a commit under this lease was refused: another process has it. Ignored for an earlier lease. */
  lost(refused: Lease): void;
  release(): Promise<void>;
}

interface HeldLeaseOptions {
  readonly store: Store;
  readonly name: string;
  readonly lengthMs: number;
  /** The lease was taken, either freely or after another holder's expired. */
  readonly onTaken?: (lease: Lease) => Promise<void> | void;
  /** Another process holds the lease now. */
  readonly onLost?: () => void;
}

/** Fraction of the lease's length between renewals. */
const renewShare = 1 / 3;

export function createHeldLease({ store, name, lengthMs, onTaken, onLost }: HeldLeaseOptions): HeldLease {
  const leases = createLeases(store);
  let lease: Lease | undefined;
  let renewedAt = 0;
  let isTakenUp = false;
  noteKeptLease(store, name, () => lease !== undefined && lease.remainingMs() > 0);

  async function renewed(): Promise<Lease | undefined> {
    if (lease === undefined) return undefined;
    if (lease.remainingMs() > 0 && performance.now() - renewedAt < lengthMs * renewShare) return lease;
    try {
      // A lease that expired while the process was paused can still be renewed if no other process has taken it.
      await lease.renew();
      renewedAt = performance.now();
      return lease;
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      lost(lease);
      return undefined;
    }
  }

  function lost(refused: Lease | undefined): void {
    if (lease === undefined || lease !== refused) return;
    lease = undefined;
    onLost?.();
  }

  /** Runs `onTaken` before any work under the lease; another process may take the lease meanwhile. */
  async function takenUp(taken: Lease): Promise<Lease | undefined> {
    try {
      // Retries after a failure.
      if (!isTakenUp) await onTaken?.(taken);
      isTakenUp = true;
      return taken;
    } catch (error) {
      if (!taken.isLostBy(error)) throw error;
      lost(taken);
      return undefined;
    }
  }

  return {
    async hold() {
      const held = await renewed();
      if (held === undefined) {
        lease = await leases.takeOnceFree(name, lengthMs);
        renewedAt = performance.now();
        isTakenUp = false;
      }
      return lease === undefined ? undefined : takenUp(lease);
    },
    lost,
    forget() {
      lease = undefined;
    },
    async release() {
      await lease?.release().catch(() => {
        /* The lease expires on its own. */
      });
    },
  };
}
