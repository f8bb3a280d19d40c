import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CounterSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import { connectionCounterKey } from "./connection-collections.ts";

/** Assigns numbers to connections. Each number is assigned once; a restart leaves a gap. */
export interface Numbers {
  /** Without a promise unless a block has to be reserved. */
  next(): number | Promise<number>;
}

/** Reserves this many numbers in one commit, so that an import need not wait for a commit each. */
const block = 1_000;
/** While a block lasts no longer than `shortMs`: batches of a large import would wait for each other. */
const largeBlock = 10_000;
const shortMs = 1_000;

export function createNumbers(store: Store): Numbers {
  let next = 0;
  let end = 0;
  let taking: Promise<void> | undefined;
  let takenAtMs = Number.NEGATIVE_INFINITY;

  async function takeBlock(): Promise<void> {
    const size = performance.now() - takenAtMs < shortMs ? largeBlock : block;
    takenAtMs = performance.now();
    const { result } = await transact(store, async () => {
      const entry = await store.get(connectionCounterKey);
      const first = entry === undefined ? 1 : fromBinary(CounterSchema, entry.value).next;
      const value = toBinary(CounterSchema, create(CounterSchema, { next: first + size }));
      return { changes: [{ key: connectionCounterKey, value, expect: entry?.revision ?? 0 }], result: first };
    });
    next = result;
    end = result + size;
  }

  async function nextOfBlock(): Promise<number> {
    while (next >= end) {
      taking ??= takeBlock().finally(() => {
        taking = undefined;
      });
      await taking;
    }
    next += 1;
    return next - 1;
  }

  return {
    next() {
      if (next >= end) return nextOfBlock();
      next += 1;
      return next - 1;
    },
  };
}
