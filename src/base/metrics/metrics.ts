import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { channelMetrics } from "./channels.ts";
import { connectionMetrics } from "./connections.ts";
import { doorMetrics } from "./doors.ts";
import { edgeMetrics } from "./edge.ts";
import { processMetrics } from "./process.ts";
import { proxyMetrics } from "./proxy.ts";
import type { MetricRow } from "./row.ts";
import { scriptMetrics } from "./scripts.ts";
import { createTallies, createTimings, type Family, type Tally, type Timing } from "./series.ts";
import { storeMetrics } from "./store.ts";
import { webhookMetrics } from "./webhooks.ts";

/**
 * Every metric of ours, by what it is about. They are declared in this room and not in those that count: all are
 * handed the same `Metrics`, and whoever watches the house finds in one place what there is to see.
 */
export const metricTable = {
  ...processMetrics,
  ...doorMetrics,
  ...storeMetrics,
  ...proxyMetrics,
  ...connectionMetrics,
  ...webhookMetrics,
  ...channelMetrics,
  ...scriptMetrics,
  ...edgeMetrics,
} as const;

type MetricTable = typeof metricTable;
type Label<N extends keyof MetricTable> = MetricTable[N]["labels"][number];
type Instrument<N extends keyof MetricTable> = MetricTable[N] extends { readonly isHot: true }
  ? Family<Label<N>, { counter: Tally; gauge: Tally; histogram: Timing }[MetricTable[N]["kind"]]>
  : { counter: Counter<Label<N>>; gauge: Gauge<Label<N>>; histogram: Histogram<Label<N>> }[MetricTable[N]["kind"]];

export type Metrics = { readonly [N in keyof MetricTable]: Instrument<N> } & {
  /** Everything, in the text format of Prometheus. */
  exposition(): Promise<{ readonly contentType: string; readonly text: string }>;
};

/** From half a millisecond to a minute: a look-up in memory and a slow provider both have their buckets. */
const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** prom-client's monitor of the event loop wakes an idle process a hundred times a second. `loopDelay` replaces it. */
const eventLoopMonitor = ["min", "max", "mean", "stddev", "p50", "p90", "p99"];
const never = 2 ** 31 - 1;

/** A registry of its own for each sidecar, so that two in one process do not count together. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: never });
  for (const name of eventLoopMonitor) registry.removeSingleMetric(`nodejs_eventloop_lag_${name}_seconds`);
  const make = ({ kind, isHot, name, help, labels, buckets = secondsBuckets }: MetricRow) => {
    if (isHot === true) {
      const declared = { name, help, labels };
      const family = kind === "histogram" ? createTimings(declared, buckets) : createTallies(declared, kind);
      // All that a registry wants of a metric is its name and its values.
      registry.registerMetric(Object.assign(family, { name }) as unknown as Counter);
      return family;
    }
    const options = { name, help, labelNames: [...labels], registers: [registry] };
    if (kind === "counter") return new Counter(options);
    if (kind === "gauge") return new Gauge(options);
    return new Histogram({ ...options, buckets: [...buckets] });
  };
  const instruments = Object.fromEntries(Object.entries(metricTable).map(([key, row]) => [key, make(row)]));
  const exposition = async () => ({ contentType: registry.contentType, text: await registry.metrics() });
  // The row's kind decides which class was made: the mapped type says the same of each name.
  return { ...instruments, exposition } as unknown as Metrics;
}
