import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { noteKeptLease } from "../../store/kept-leases.ts";
import { createLeases, type Lease } from "../../store/leases.ts";

/** The lease of the one replica that delivers for all. */
export interface DeliveryLease {
  /** Returns the lease as this replica last knew it; it may have expired since. */
  current(): Lease | undefined;
  /** Returns whether a delivery may start now: the lease is valid, and the wait after a takeover is over. */
  allowsDelivery(): boolean;
  /** Takes the lease if it is free, or renews it when a renewal is due. Call often. */
  hold(): Promise<void>;
  /** A commit under this lease was refused: another replica has it. Ignored for an earlier lease. */
  lost(refused: Lease): void;
  release(): Promise<void>;
}

interface DeliveryLeaseOptions {
  readonly store: Store;
  readonly lengthMs: number | undefined;
  readonly onTaken: () => void;
  readonly onLost: () => void;
  /** The wait after a takeover is over. */
  readonly onReady: () => void;
  readonly world: World;
}

const leaseName = "deliveries";
const defaultLengthMs = 15_000;
/** Renewals per lease: often enough that one renewal may fail. */
const renewalsPerLease = 3;
/**
 * Share of the lease time that a replica waits after it takes over an expired lease. After a store outage, the previous
 * holder uses this time to record what it delivered in the meantime, which would otherwise be delivered twice.
 */
const handOverShare = 0.2;

export function createDeliveryLease(options: DeliveryLeaseOptions): DeliveryLease {
  const { store, lengthMs = defaultLengthMs, onTaken, onLost, onReady, world } = options;
  const leases = createLeases(store);
  let lease: Lease | undefined;
  let renewedAt = 0;
  let readyAt = 0;
  noteKeptLease(store, leaseName, () => lease !== undefined && lease.remainingMs() > 0);

  function become(held: Lease | undefined): void {
    world.metrics.delivering.set(held === undefined ? 0 : 1);
    const wasHeld = lease !== undefined;
    lease = held;
    if (wasHeld === (held !== undefined)) return;
    if (held === undefined) onLost();
    else onTaken();
  }

  function lost(refused: Lease): void {
    if (lease === refused) become(undefined);
  }

  async function renew(held: Lease): Promise<void> {
    if (performance.now() - renewedAt < lengthMs / renewalsPerLease) return;
    renewedAt = performance.now();
    await held.renew().catch((error: unknown) => {
      if (held.remainingMs() === 0) lost(held);
      throw error;
    });
  }

  async function take(): Promise<void> {
    const taken = await leases.takeOnceFree(leaseName, lengthMs);
    renewedAt = performance.now();
    // Skip the wait if the expired lease was our own: this process knows which attempts it started.
    if (taken?.ranOut && lease === undefined) {
      readyAt = renewedAt + lengthMs * handOverShare;
      setTimeout(onReady, lengthMs * handOverShare).unref();
    }
    become(taken);
  }

  return {
    current: () => lease,
    allowsDelivery: () => lease !== undefined && lease.remainingMs() > 0 && performance.now() >= readyAt,
    hold: () => (lease !== undefined && lease.remainingMs() > 0 ? renew(lease) : take()),
    lost,
    async release() {
      await lease?.release().catch(() => {
        /* The lease expires by itself. */
      });
    },
  };
}
