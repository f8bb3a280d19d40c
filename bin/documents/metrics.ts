import { channelMetrics } from "../../src/base/metrics/channels.ts";
import { connectionMetrics } from "../../src/base/metrics/connections.ts";
import { doorMetrics } from "../../src/base/metrics/doors.ts";
import { edgeMetrics } from "../../src/base/metrics/edge.ts";
import { metricTable } from "../../src/base/metrics/metrics.ts";
import { processMetrics } from "../../src/base/metrics/process.ts";
import { proxyMetrics } from "../../src/base/metrics/proxy.ts";
import type { MetricRow } from "../../src/base/metrics/row.ts";
import { scriptMetrics } from "../../src/base/metrics/scripts.ts";
import { storeMetrics } from "../../src/base/metrics/store.ts";
import { webhookMetrics } from "../../src/base/metrics/webhooks.ts";
import { code, generatedNote, page, table } from "./markdown.ts";

const groups: readonly (readonly [title: string, rows: Readonly<Record<string, MetricRow>>])[] = [
  ["Process", processMetrics],
  ["Listeners", doorMetrics],
  ["Proxy", proxyMetrics],
  ["Connections and credentials", connectionMetrics],
  ["Webhooks and deliveries", webhookMetrics],
  ["Watch channels", channelMetrics],
  ["Scripts and syncs", scriptMetrics],
  ["Store", storeMetrics],
  ["Edges", edgeMetrics],
];

/** docs/metrics.md: every metric, from the table that declares them. */
export function metricsPage(): string {
  const listed = groups.flatMap(([, rows]) => Object.keys(rows));
  const missing = Object.keys(metricTable).filter((name) => !listed.includes(name));
  if (missing.length > 0) throw new Error(`docs/metrics.md has no group for ${missing.join(", ")}`);
  return page(
    generatedNote,
    "# Metrics",
    "This page lists every metric that Latchkey exposes in the Prometheus format at `/metrics` of the ops listener.",
    `\`\`\`sh
curl -s http://127.0.0.1:3005/metrics | grep '^latchkey_'
\`\`\``,
    "A `counter` only grows; a `histogram` has `_bucket`, `_sum` and `_count` series. No label holds a connection, a path, a host or a key. The metrics of Node's process (`process_*`, `nodejs_*`) are there too.",
    ...groups.map(([title, rows]) => page(`## ${title}`, rowsOf(rows)).trimEnd()),
    "Next: [which metrics to watch first](observability.md), and the [runbooks](../deploy/runbooks.md) of the alerts.",
  );
}

const rowsOf = (rows: Readonly<Record<string, MetricRow>>): string =>
  table(
    ["Metric", "Kind", "Labels", "Meaning"],
    Object.values(rows).map(({ name, kind, labels, help }) => [
      code(name),
      kind,
      labels.map(code).join(", ") || "–",
      help,
    ]),
  );
