import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Tracing } from "./tracing.ts";

/** What a room needs of the outside, and what a test wants to hold in its hand. */
export interface World {
  /** Milliseconds since 1970, by the wall clock. */
  readonly now: () => number;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Undefined unless somebody collects spans. */
  readonly tracing?: Tracing | undefined;
}
