import type { MetricRow } from "./row.ts";

/** Metrics of the customer's scripts. */
export const scriptMetrics = {
  runs: {
    kind: "counter",
    name: "latchkey_runs_total",
    help: "Executions of scripts that ended, by kind of script and outcome: succeeded, failed, cancelled, interrupted.",
    labels: ["kind", "outcome"],
  },
  runSeconds: {
    kind: "histogram",
    name: "latchkey_run_seconds",
    help: "Time that executions of scripts took, by kind of script.",
    labels: ["kind"],
  },
  runsOpen: {
    kind: "gauge",
    name: "latchkey_runs_open",
    help: "Executions of scripts that are under way in this process.",
    labels: [],
  },
  runsOverdue: {
    kind: "gauge",
    name: "latchkey_runs_overdue_seconds",
    help: "For how long the execution has waited that has waited longest.",
    labels: [],
  },
  scriptsBroken: {
    kind: "gauge",
    name: "latchkey_scripts_broken",
    help: "Files of scripts that are refused as they stand.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
