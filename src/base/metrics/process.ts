import type { MetricRow } from "./row.ts";

/** Metrics of the process. */
export const processMetrics = {
  ready: { kind: "gauge", name: "latchkey_ready", help: "1 while the process takes requests.", labels: [] },
  buildInfo: {
    kind: "gauge",
    name: "latchkey_build_info",
    help: "Always 1; the labels name the version that runs.",
    labels: ["version", "node"],
  },
  overloaded: {
    kind: "gauge",
    name: "latchkey_overloaded",
    help: "1 while the process is overloaded and refuses new requests to providers.",
    labels: [],
  },
  loopDelay: {
    isHot: true,
    kind: "histogram",
    name: "latchkey_loop_delay_seconds",
    help: "How long a lap of the event loop takes, measured four times a second.",
    labels: [],
  },
  configRejected: {
    kind: "gauge",
    name: "latchkey_config_rejected",
    help: "1 while the current configuration file is rejected and the last good one is in use.",
    labels: [],
  },
  certificateEnds: {
    kind: "gauge",
    name: "latchkey_certificate_end_seconds",
    help: "When the certificate of a listener with TLS expires, in seconds since 1970.",
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
    help: "Spans that no collector accepted.",
    labels: [],
  },
  logLinesLost: {
    kind: "counter",
    name: "latchkey_log_lines_lost_total",
    help: "Log lines that could not be written: the reader is gone, or the disk is full.",
    labels: [],
  },
  unhandled: {
    kind: "counter",
    name: "latchkey_unhandled_errors_total",
    help: "Unexpected errors. Each is a defect of Latchkey.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
