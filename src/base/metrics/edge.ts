import type { MetricRow } from "./row.ts";

/** Metrics of an edge: its broker, what it has in memory, and what it asks; and of the broker that serves it. */
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
    help: "In an edge: connections, keys, policies and addresses (`routes`) in memory.",
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
  edges: { kind: "gauge", name: "latchkey_edges", help: "Edges that are connected to this broker.", labels: [] },
  edgePushes: {
    kind: "counter",
    name: "latchkey_edge_pushes_total",
    help: "In a broker: changes sent to edges, by kind: connection, key, integration, provider, policies, routes or authorities.",
    labels: ["kind"],
  },
  edgeWants: {
    kind: "counter",
    name: "latchkey_edge_requests_total",
    help: "In a broker: requests of edges, by kind: connection, key, pass (a place within a provider's limit), requests (of a budget), routes or certificate.",
    labels: ["kind"],
  },
} as const satisfies Record<string, MetricRow>;
