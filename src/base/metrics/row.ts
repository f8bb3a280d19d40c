/**
 * What is declared of a metric. No connection id, path, host or key is ever a label: the number of series is bounded by
 * what is written in the code.
 */
export interface MetricRow {
  readonly kind: "counter" | "gauge" | "histogram";
  /** Counted for every request: its series are held by whoever counts. */
  readonly isHot?: boolean;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Of a histogram, in place of the usual ones. */
  readonly buckets?: readonly number[];
}
