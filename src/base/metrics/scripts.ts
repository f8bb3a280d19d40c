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
    help: "Executions of scripts in progress in this process.",
    labels: [],
  },
  runsOverdue: {
    kind: "gauge",
    name: "latchkey_runs_overdue_seconds",
    help: "Delay of the oldest due run.",
    labels: [],
  },
  scriptsBroken: {
    kind: "gauge",
    name: "latchkey_scripts_broken",
    help: "Script files that are not valid.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
