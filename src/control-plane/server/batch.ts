import type { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";

/** What became of one item of a batch. */
export type BatchOutcome<R> = { readonly value: R; readonly fault?: undefined } | { readonly fault: Fault };

/** Each item for itself, in order: what goes wrong with one is its own outcome and spoils no other. */
export async function eachOf<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<BatchOutcome<R>[]> {
  const outcomes: BatchOutcome<R>[] = [];
  for (const item of items) {
    try {
      outcomes.push({ value: await run(item) });
    } catch (error) {
      outcomes.push({ fault: faultOfStore(error) });
    }
  }
  return outcomes;
}
