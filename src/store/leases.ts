import { randomUUID } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { LeaseHolderSchema, LeaseTermSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "./contract.ts";
import { keyOf, under } from "./keys.ts";
import type { HolderWatch } from "./lease-holder-watch.ts";
import { leaseSightOf } from "./lease-sight.ts";

/**
 * Leases for work that only one replica may do at a time. A lease expires by the store's own clock. No clock can
 * guarantee that an expired holder stops, so every commit under a lease carries its fence, and is refused once another
 * process has taken the lease.
 */
export interface Leases {
  /** Returns undefined while another process holds the lease. */
  take(name: string, lengthMs: number): Promise<Lease | undefined>;
  /**
   * Like `take`, for callers that try again and again: asks the store only when the feed has told that the lease was
   * released, or its term can have ended.
   */
  takeOnceFree(name: string, lengthMs: number): Promise<Lease | undefined>;
  /**
   * Like `take`, for callers that commit other changes together with it. A lease whose holder `watch` finds dead is
   * free.
   */
  find(name: string, lengthMs: number, watch?: HolderWatch): Promise<FreeLease | undefined>;
}

/** A lease that was free when it was checked. */
export interface FreeLease {
  /** Changes that take the lease: the commit is refused if another process has taken it meanwhile. */
  readonly changes: readonly Change[];
  /** Creates the lease after the changes were committed at this revision. */
  taken(revision: number): Lease;
}

export interface Lease {
  readonly name: string;
  /** Condition for every commit made under the lease. */
  readonly fence: Condition;
  /** Reports whether this error, from a commit under the lease, means that another process has taken it. */
  isLostBy(error: unknown): boolean;
  /** The previous holder let the lease expire: it may not know yet, and may still try to write. */
  readonly ranOut: boolean;
  /**
   * Time for which the lease certainly holds, as far as this process can tell; a process that was paused gets 0 when it
   * resumes.
   */
  remainingMs(): number;
  /** Starts the lease's length again, or another length from now on. Rejects with `LeaseLost`. */
  renew(lengthMs?: number): Promise<void>;
  /** Changes that release the lease, to include in another commit. */
  releasing(): readonly Change[];
  /** Does nothing if another process holds the lease. */
  release(): Promise<void>;
}

/** Keys of a lease in the store. A dead holder's keys stay until another process takes or deletes the lease. */
export const leaseKeys = (name: string) => ({ holder: keyOf("lease", name), term: keyOf("lease-term", name) });

/**
 * Ends all leases of a store that only one process can open: any previous holder is gone, so there is no need to wait
 * for expiry.
 */
export async function endAllLeases(store: Store): Promise<void> {
  for (const space of ["lease", "lease-term"]) {
    const held = await store.list({ ...under(space), limit: Number.MAX_SAFE_INTEGER });
    if (held.length > 0) await store.commit(held.map(({ key }) => ({ key, value: undefined })));
  }
}

/** Another process holds the lease now. Work done under it since must not be committed. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";

  constructor(name: string, options?: ErrorOptions) {
    super(`the lease "${name}" is held by another process`, options);
  }
}

/** Safety margin before expiry: clocks of two machines run at different speeds, and a response takes time. */
const marginShare = 0.1;

interface LeaseWish {
  readonly name: string;
  readonly lengthMs: number;
  readonly watch?: HolderWatch | undefined;
  /** Another process holds the lease until `untilMs`; the store's clock was `nowMs`. */
  readonly onHeld?: (term: { readonly untilMs: number; readonly nowMs: number }) => void;
}

export function createLeases(store: Store): Leases {
  const sight = leaseSightOf(store);

  async function find({ name, lengthMs, watch, onHeld }: LeaseWish): Promise<FreeLease | undefined> {
    const { holder: holderKey, term: termKey } = leaseKeys(name);
    // Read the entries before the clock. In the other order, a lease taken in between would seem to last longer than
    // possible, and would be taken from its new holder.
    const [held, running] = await store.getMany([holderKey, termKey]);
    const foundAt = performance.now();
    const now = await store.clock();
    if (held !== undefined && running !== undefined && runs(running.value, now)) {
      onHeld?.({ untilMs: fromBinary(LeaseTermSchema, running.value).untilMs, nowMs: now });
      if ((await watch?.isDead(running)) !== true) return undefined;
    }

    const term = (at: number, length = lengthMs) => {
      const session = store.sessions?.current() ?? "";
      const untilMs = at + length;
      return toBinary(LeaseTermSchema, create(LeaseTermSchema, { untilMs, lengthMs: length, session }));
    };
    const holder = toBinary(LeaseHolderSchema, create(LeaseHolderSchema, { id: randomUUID() }));
    return {
      changes: [
        { key: holderKey, value: holder, expect: held?.revision ?? 0 },
        { key: termKey, value: term(now), expect: running?.revision ?? 0 },
      ],
      taken(revision) {
        let begunAt = foundAt;
        let length = lengthMs;
        const fence = { key: holderKey, expect: revision };
        const releasing = () => [
          { key: holderKey, value: undefined, expect: revision },
          { key: termKey, value: undefined },
        ];
        return {
          name,
          fence,
          isLostBy: (error) => error instanceof StaleWrite && error.key === holderKey,
          ranOut: held !== undefined,
          remainingMs: () => Math.max(0, begunAt + length * (1 - marginShare) - performance.now()),
          async renew(nextLength = length) {
            const renewedAt = performance.now();
            const at = await store.clock();
            await store.commit([{ key: termKey, value: term(at, nextLength) }], [fence]).catch((error: unknown) => {
              throw error instanceof StaleWrite ? new LeaseLost(name, { cause: error }) : error;
            });
            begunAt = renewedAt;
            length = nextLength;
          },
          releasing,
          async release() {
            await store.commit(releasing()).catch((error: unknown) => {
              if (!(error instanceof StaleWrite)) throw error;
            });
          },
        };
      },
    };
  }

  async function take(wish: LeaseWish): Promise<Lease | undefined> {
    const free = await find(wish);
    if (free === undefined) return undefined;
    try {
      return free.taken(await store.commit(free.changes));
    } catch (error) {
      if (error instanceof StaleWrite) return undefined;
      throw error;
    }
  }

  return {
    find: (name, lengthMs, watch) => find({ name, lengthMs, watch }),
    take: (name, lengthMs) => take({ name, lengthMs }),
    async takeOnceFree(name, lengthMs) {
      const look = await sight.look(leaseKeys(name));
      return look && take({ name, lengthMs, onHeld: look.noteHeld });
    },
  };
}

/** A lease with more time left than its full length was taken before the clock was set back: treat it as expired. */
function runs(value: Uint8Array, now: number): boolean {
  const { untilMs, lengthMs } = fromBinary(LeaseTermSchema, value);
  return untilMs > now && untilMs <= now + lengthMs;
}
