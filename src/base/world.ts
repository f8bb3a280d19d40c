import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Tracing } from "./tracing.ts";

/** Dependencies on the outside that tests replace. */
export interface World {
  /** Milliseconds since 1970, by the wall clock. */
  readonly now: () => number;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Undefined unless spans are collected. */
  readonly tracing?: Tracing | undefined;
}
