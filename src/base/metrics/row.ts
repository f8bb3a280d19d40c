/**
 * What is declared of a metric. No connection id, path, host or key is ever a label: the number of series is bounded by
 * what is written in the code, that of integrations by `broker/traffic/traffic-counts`.
 */
export interface MetricRow {
  readonly kind: "counter" | "gauge" | "histogram";
  /** Updated for every request: the code that counts holds the series itself. */
  readonly isHot?: boolean;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Buckets of a histogram, instead of the default ones. */
  readonly buckets?: readonly number[];
}
