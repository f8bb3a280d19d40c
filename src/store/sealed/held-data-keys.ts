import type { KeyObject } from "node:crypto";
import { fromBinary } from "@bufbuild/protobuf";
import { type DataKey, DataKeySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Backend, type Change, StaleWrite } from "../contract.ts";
import { under } from "../keys.ts";
import { type DataKeyWrapping, dataKeySpace } from "./data-key-wrapping.ts";
import { SealKeyMissing } from "./seal-key.ts";

/** A stored data key, with its secret if it can be unwrapped. */
export interface HeldKey {
  readonly stored: DataKey;
  readonly revision: number;
  readonly secret: KeyObject | undefined;
  /** Why the key cannot be unwrapped. */
  readonly problem?: SealKeyMissing;
}

/** The stored data keys, unwrapped, in memory. */
export interface HeldDataKeys {
  /** Reads changes by other replicas. */
  refresh(): Promise<void>;
  /** Commits, and reads all keys again. A concurrent replica doing the same is just as good. */
  commit(changes: readonly Change[]): Promise<void>;
  of(epoch: number): HeldKey | undefined;
  all(): readonly HeldKey[];
  /** The keys that encrypt, in the order of their epochs. */
  epochs(): readonly HeldKey[];
}

/** Epoch of the key that authenticates values; it encrypts none. */
export const authenticationEpoch = 0;

interface HeldDataKeysOptions {
  readonly backend: Backend;
  readonly wrapping: DataKeyWrapping;
}

export function createHeldDataKeys({ backend, wrapping }: HeldDataKeysOptions): HeldDataKeys {
  const keys = new Map<number, HeldKey>();

  async function refresh(): Promise<void> {
    const found = await backend.list({ ...under(dataKeySpace), limit: 100_000 });
    const read = await Promise.all(
      found.map(async ({ value, revision }): Promise<HeldKey> => {
        const stored = fromBinary(DataKeySchema, value);
        return { stored, revision, ...(await unwrapped(stored)) };
      }),
    );
    keys.clear();
    for (const one of read) keys.set(one.stored.epoch, one);
  }

  /**
   * Reuses an unwrapped secret only if the wrapped key is the same: a store restored to an older state may give the
   * same epoch to another key.
   */
  async function unwrapped(stored: DataKey): Promise<Pick<HeldKey, "secret" | "problem">> {
    const known = keys.get(stored.epoch);
    if (known?.secret !== undefined && Buffer.compare(known.stored.wrapped, stored.wrapped) === 0) {
      return { secret: known.secret };
    }
    try {
      const secret = await wrapping.unwrap(stored);
      if (secret !== undefined) return { secret };
    } catch (error) {
      if (!(error instanceof SealKeyMissing)) throw error;
      return { secret: undefined, problem: error };
    }
    // The authentication key is created once, and stays the same under any wrapping.
    const isSame = stored.epoch === authenticationEpoch && known?.secret !== undefined;
    return isSame ? { secret: known.secret } : { secret: undefined, problem: wrapping.missing(stored) };
  }

  return {
    refresh,
    async commit(changes) {
      try {
        await backend.commit(changes);
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
      await refresh();
    },
    of: (epoch) => keys.get(epoch),
    all: () => [...keys.values()],
    epochs: () => [...keys.values()].filter(({ stored }) => stored.epoch !== authenticationEpoch),
  };
}
