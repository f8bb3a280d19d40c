import type { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";

/** Result of a batch item. */
export type BatchOutcome<R> = { readonly value: R; readonly fault?: undefined } | { readonly fault: Fault };

export async function outcomeOf<R>(running: Promise<R>): Promise<BatchOutcome<R>> {
  try {
    return { value: await running };
  } catch (error) {
    return { fault: faultOfStore(error) };
  }
}

/** Runs each item separately, in order: a failed item does not affect the others. */
export async function eachOf<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<BatchOutcome<R>[]> {
  const outcomes: BatchOutcome<R>[] = [];
  for (const item of items) outcomes.push(await outcomeOf(run(item)));
  return outcomes;
}
