import { fromBinary } from "@bufbuild/protobuf";
import { LeaseTermSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Commit, Store } from "./contract.ts";

/**
 * Whether leases that other processes hold may be free, as told by the feed: who waits for a lease need not read its
 * keys and the clock every second.
 *
 * It errs mostly in one direction: a lease that it calls free may be held. The opposite lasts only as long as the feed
 * is behind.
 */
export interface LeaseSight {
  /** Returns undefined if another process certainly holds the lease. Otherwise, read it now, and note what was found. */
  look(lease: LeaseKeys): Promise<LeaseLook | undefined>;
}

export interface LeaseLook {
  /** Another process holds the lease until `untilMs`, and the store's clock was `nowMs`. */
  noteHeld(term: { readonly untilMs: number; readonly nowMs: number }): void;
}

interface LeaseKeys {
  readonly holder: string;
  readonly term: string;
}

interface SeenLease {
  /** When it may be free, of `performance.now()`. */
  freeAt: number;
  /** Number of changes that the feed told. */
  changes: number;
}

const sights = new WeakMap<Store, LeaseSight>();

/** Returns the one of the store. */
export function leaseSightOf(store: Store): LeaseSight {
  const sight = sights.get(store) ?? createLeaseSight(store);
  sights.set(store, sight);
  return sight;
}

function createLeaseSight(store: Store): LeaseSight {
  /** Each lease is there twice, by its keys. */
  const seen = new Map<string, SeenLease>();
  /** By how much the store's clock is ahead of `performance.now()`. */
  let aheadMs = 0;
  let watching: Promise<unknown> | undefined;

  function onCommit({ changes }: Commit): void {
    for (const { key, value } of changes) {
      const lease = seen.get(key);
      if (lease === undefined) continue;
      lease.changes += 1;
      if (value === undefined) lease.freeAt = 0;
      else if (key.startsWith("lease-term\0")) lease.freeAt = endOf(value);
    }
  }

  /** A server's clock may be set: no term is longer than its length. */
  function endOf(term: Uint8Array): number {
    const { untilMs, lengthMs } = fromBinary(LeaseTermSchema, term);
    return Math.min(untilMs - aheadMs, performance.now() + lengthMs);
  }

  function forget(): void {
    seen.clear();
    watching = undefined;
  }

  return {
    async look({ holder, term }) {
      watching ??= store.watch(store.status().revision, { spaces: ["lease", "lease-term"], onCommit, onLost: forget });
      await watching.catch((error: unknown) => {
        forget();
        throw error;
      });
      const lease = seen.get(holder) ?? { freeAt: 0, changes: 0 };
      if (performance.now() < lease.freeAt) return undefined;
      seen.set(holder, lease).set(term, lease);
      const { changes } = lease;
      return {
        noteHeld({ untilMs, nowMs }) {
          aheadMs = nowMs - performance.now();
          // A change that was told since may have released what was read.
          if (lease.changes === changes) lease.freeAt = untilMs - aheadMs;
        },
      };
    },
  };
}
