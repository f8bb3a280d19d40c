import type { Store } from "./contract.ts";
import { createLeases, type Lease, LeaseLost } from "./leases.ts";

/** A lease that one replica of several has for as long as it looks after it: taken when it is free, and renewed in time. */
export interface HeldLease {
  /** The lease, if it is ours now; asked for often enough, so that it does not run out. */
  hold(): Promise<Lease | undefined>;
  /** As if somebody else had it: it is taken again when it has run out, and what comes with that is done again. */
  forget(): void;
  /** A commit under this one was refused: it is not ours any more. Of one that is long gone, nothing. */
  lost(refused: Lease): void;
  release(): Promise<void>;
}

interface HeldLeaseOptions {
  readonly store: Store;
  readonly name: string;
  readonly lengthMs: number;
  /** It was taken, by us or from somebody who let it run out. */
  readonly onTaken?: (lease: Lease) => Promise<void> | void;
  /** Somebody else has it now. */
  readonly onLost?: () => void;
}

/** Of its length: so often it is renewed. */
const renewShare = 1 / 3;

export function createHeldLease({ store, name, lengthMs, onTaken, onLost }: HeldLeaseOptions): HeldLease {
  const leases = createLeases(store);
  let lease: Lease | undefined;
  let renewedAt = 0;
  let isTakenUp = false;

  async function renewed(): Promise<Lease | undefined> {
    if (lease === undefined) return undefined;
    if (lease.remainingMs() > 0 && performance.now() - renewedAt < lengthMs * renewShare) return lease;
    try {
      // One that ran out while the process was held up is still ours where nobody has taken it.
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

  /** What comes before anything that is done under it; while it is done, somebody else may come to have it. */
  async function takenUp(taken: Lease): Promise<Lease | undefined> {
    try {
      // What failed is done again.
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
        lease = await leases.take(name, lengthMs);
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
        /* It runs out by itself. */
      });
    },
  };
}
