import type { MetricRow } from "./row.ts";

/** Metrics of the process. */
export const processMetrics = {
  ready: { kind: "gauge", name: "latchkey_ready", help: "1 while the sidecar takes requests.", labels: [] },
  buildInfo: {
    kind: "gauge",
    name: "latchkey_build_info",
    help: "Always 1; the labels say what runs.",
    labels: ["version", "node"],
  },
  overloaded: {
    kind: "gauge",
    name: "latchkey_overloaded",
    help: "1 while the process cannot keep up and turns new requests to providers away.",
    labels: [],
  },
  configRejected: {
    kind: "gauge",
    name: "latchkey_config_rejected",
    help: "1 while the configuration file as it stands is refused and the last good one is in force.",
    labels: [],
  },
  certificateEnds: {
    kind: "gauge",
    name: "latchkey_certificate_end_seconds",
    help: "When the certificate of a door that speaks TLS runs out, in seconds since 1970, by door.",
    labels: ["door"],
  },
  logsDeleted: {
    kind: "counter",
    name: "latchkey_logs_deleted_total",
    help: "Logs that were deleted because they were too old or too many.",
    labels: [],
  },
  spansDropped: {
    kind: "counter",
    name: "latchkey_spans_dropped_total",
    help: "Spans that no collector has taken.",
    labels: [],
  },
  logLinesLost: {
    kind: "counter",
    name: "latchkey_log_lines_lost_total",
    help: "Lines of the log that could not be written: nobody reads it any more, or there is no room for it.",
    labels: [],
  },
  unhandled: {
    kind: "counter",
    name: "latchkey_unhandled_errors_total",
    help: "Errors that no code caught. Each is a defect of latchkey's.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
