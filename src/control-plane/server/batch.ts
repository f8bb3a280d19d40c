import type { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";

/** Result of a batch item. */
export type BatchOutcome<R> = { readonly value: R; readonly fault?: undefined } | { readonly fault: Fault };

/** Runs each item separately, in order: a failed item does not affect the others. */
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
