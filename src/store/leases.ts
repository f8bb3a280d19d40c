import { randomUUID } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { LeaseHolderSchema, LeaseTermSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "./contract.ts";
import { keyOf, under } from "./keys.ts";
import type { HolderWatch } from "./lease-holder-watch.ts";

/**
 * For what only one may do at a time, however many replicas there are. A lease runs out by the store's own clock;
 * that nobody acts under one that has run out, no clock can promise: so every commit made under it carries its
 * fence, and is refused once somebody else has taken it.
 */
export interface Leases {
  /** Undefined while somebody else has it. */
  take(name: string, lengthMs: number): Promise<Lease | undefined>;
  /** As `take`, for whoever has something to commit with it. A lease whose holder `watch` finds dead is free. */
  find(name: string, lengthMs: number, watch?: HolderWatch): Promise<FreeLease | undefined>;
}

/** Nobody had it when it was looked at. */
export interface FreeLease {
  /** What takes it: the commit is refused when somebody else has taken it meanwhile. */
  readonly changes: readonly Change[];
  /** Once they were committed, at this revision. */
  taken(revision: number): Lease;
}

export interface Lease {
  readonly name: string;
  /** For every commit that is made under it. */
  readonly fence: Condition;
  /** Whether this is why a commit under it was refused: somebody else has it now. */
  isLostBy(error: unknown): boolean;
  /** Whoever had it before let it run out: that one may not know yet, and have something to write down. */
  readonly ranOut: boolean;
  /** How long it certainly holds, as far as we can tell; a process that was paused is told 0 once it goes on. */
  remainingMs(): number;
  /** Rejects with `LeaseLost`. */
  renew(): Promise<void>;
  /** Gives it back, together with what a commit does. */
  releasing(): readonly Change[];
  /** Does nothing when somebody else has it. */
  release(): Promise<void>;
}

/** Under which it lies in the store: of a holder that died it stays there until somebody takes it, or takes it away. */
export const leaseKeys = (name: string) => ({ holder: keyOf("lease", name), term: keyOf("lease-term", name) });

/**
 * For a store that only one process can have open: whoever held a lease in it is gone, and nobody need wait until it
 * runs out.
 */
export async function endAllLeases(store: Store): Promise<void> {
  for (const space of ["lease", "lease-term"]) {
    const held = await store.list({ ...under(space), limit: Number.MAX_SAFE_INTEGER });
    if (held.length > 0) await store.commit(held.map(({ key }) => ({ key, value: undefined })));
  }
}

/** Somebody else has it now. What was done under it since may not be written down. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";

  constructor(name: string, options?: ErrorOptions) {
    super(`the lease "${name}" is held by somebody else`, options);
  }
}

/** Clocks of two machines do not run alike, and an answer takes its time: we stop a little before the store does. */
const marginShare = 0.1;

export function createLeases(store: Store): Leases {
  async function find(name: string, lengthMs: number, watch?: HolderWatch): Promise<FreeLease | undefined> {
    const { holder: holderKey, term: termKey } = leaseKeys(name);
    // Before the clock: one that was taken between two looks the other way round would seem to run longer than it can,
    // and be taken away from whoever has only just got it.
    const [held, running] = await store.getMany([holderKey, termKey]);
    const foundAt = performance.now();
    const now = await store.clock();
    if (held !== undefined && running !== undefined && runs(running.value, now)) {
      if ((await watch?.isDead(running)) !== true) return undefined;
    }

    const term = (at: number) => {
      const session = store.sessions?.current() ?? "";
      return toBinary(LeaseTermSchema, create(LeaseTermSchema, { untilMs: at + lengthMs, lengthMs, session }));
    };
    const holder = toBinary(LeaseHolderSchema, create(LeaseHolderSchema, { id: randomUUID() }));
    return {
      changes: [
        { key: holderKey, value: holder, expect: held?.revision ?? 0 },
        { key: termKey, value: term(now), expect: running?.revision ?? 0 },
      ],
      taken(revision) {
        let begunAt = foundAt;
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
          remainingMs: () => Math.max(0, begunAt + lengthMs * (1 - marginShare) - performance.now()),
          async renew() {
            const renewedAt = performance.now();
            const at = await store.clock();
            await store.commit([{ key: termKey, value: term(at) }], [fence]).catch((error: unknown) => {
              throw error instanceof StaleWrite ? new LeaseLost(name, { cause: error }) : error;
            });
            begunAt = renewedAt;
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

  return {
    find,
    async take(name, lengthMs) {
      const free = await find(name, lengthMs);
      if (free === undefined) return undefined;
      try {
        return free.taken(await store.commit(free.changes));
      } catch (error) {
        if (error instanceof StaleWrite) return undefined;
        throw error;
      }
    },
  };
}

/** One that runs longer than it was taken for was taken by a clock that has been set back since: it is over. */
function runs(value: Uint8Array, now: number): boolean {
  const { untilMs, lengthMs } = fromBinary(LeaseTermSchema, value);
  return untilMs > now && untilMs <= now + lengthMs;
}
