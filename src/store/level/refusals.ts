import type { Metrics } from "../../base/metrics/metrics.ts";
import type { CommitQueue } from "../commit-queue.ts";
import type { StoreUnavailable } from "../contract.ts";

/** Causes of refused writes, the most important first. */
const causes = ["writeError", "diskFull", "moved"] as const;
type RefusalCause = (typeof causes)[number];

/** Why the store refuses writes. The queue of commits stops at the first cause, and resumes after the last. */
export interface Refusals {
  /** The most important reason; undefined while the store accepts writes. */
  readonly current: StoreUnavailable | undefined;
  of(cause: RefusalCause): StoreUnavailable | undefined;
  /** Sets the reason for a cause, or clears the cause. */
  set(cause: RefusalCause, reason: StoreUnavailable | undefined): void;
}

interface RefusalsOptions {
  readonly queue: Pick<CommitQueue, "stop" | "resume">;
  readonly metrics: Metrics;
}

export function createRefusals({ queue, metrics }: RefusalsOptions): Refusals {
  const reasons = new Map<RefusalCause, StoreUnavailable>();
  const current = () => {
    for (const cause of causes) if (reasons.has(cause)) return reasons.get(cause);
    return undefined;
  };

  return {
    get current() {
      return current();
    },
    of: (cause) => reasons.get(cause),
    set(cause, reason) {
      if (reason === undefined) reasons.delete(cause);
      else reasons.set(cause, reason);
      const first = current();
      metrics.storeWritable.set(first === undefined ? 1 : 0);
      if (first === undefined) queue.resume();
      else queue.stop(first);
    },
  };
}
