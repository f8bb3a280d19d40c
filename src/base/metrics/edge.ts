import type { MetricRow } from "./row.ts";

/** Metrics of an edge: its broker, what it has in memory, and what it asks. */
export const edgeMetrics = {
  edgeConnected: {
    kind: "gauge",
    name: "latchkey_edge_connected",
    help: "In an edge: 1 while it has a broker.",
    labels: [],
  },
  edgeStreams: {
    kind: "counter",
    name: "latchkey_edge_streams_total",
    help: "In an edge: brokers that it connected to; more than one after interruptions.",
    labels: [],
  },
  edgeHeld: {
    kind: "gauge",
    name: "latchkey_edge_held",
    help: "In an edge: connections and keys in memory.",
    labels: ["kind"],
  },
  edgeChanges: {
    kind: "counter",
    name: "latchkey_edge_changes_total",
    help: "In an edge: changes that brokers sent unasked, by what changed.",
    labels: ["kind"],
  },
  edgeQuestions: {
    kind: "counter",
    name: "latchkey_edge_questions_total",
    help: "In an edge: questions to brokers, by what was asked and whether it was answered.",
    labels: ["kind", "outcome"],
  },
  edgeQuestionSeconds: {
    kind: "histogram",
    name: "latchkey_edge_question_seconds",
    help: "In an edge: time until a broker's answer.",
    labels: ["kind"],
  },
  edgeRelayed: {
    kind: "counter",
    name: "latchkey_edge_relayed_total",
    help: "In an edge: requests relayed to brokers, by the class of the answer.",
    labels: ["answer"],
  },
} as const satisfies Record<string, MetricRow>;
