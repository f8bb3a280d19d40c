import type { MetricRow } from "./row.ts";

/** Metrics of the listeners: HTTP, the control plane, and watch streams. */
export const doorMetrics = {
  httpRequests: {
    kind: "counter",
    isHot: true,
    name: "latchkey_http_requests_total",
    help: "Requests answered, by listener (`door`), route pattern and status.",
    labels: ["door", "route", "status"],
  },
  httpSeconds: {
    kind: "histogram",
    isHot: true,
    name: "latchkey_http_request_seconds",
    help: "Time from a request's head to the end of its answer.",
    labels: ["door", "route"],
  },
  mcpMessages: {
    kind: "counter",
    name: "latchkey_mcp_messages_total",
    help: "Messages of MCP clients, by integration, method and outcome: done, refused, held, failed, account_needed, input_needed, left. The integration of Latchkey's own endpoint is `(latchkey)`, and only its calls of tools, prompts and resources are counted; integrations beyond the first 100 are `(other)`.",
    labels: ["environment", "integration", "method", "outcome"],
  },
  mcpMessageSeconds: {
    kind: "histogram",
    name: "latchkey_mcp_message_seconds",
    help: "Time until the answer to a message of an MCP client was over, by method. Event streams that the server opens are not counted.",
    labels: ["method"],
  },
  mcpCalls: {
    kind: "counter",
    name: "latchkey_mcp_calls_total",
    help: "Calls of tools of the MCP endpoint, by kind (`action`, `records`, or a tool of Latchkey) and outcome: done, refused, held, failed, account_needed, input_needed.",
    labels: ["kind", "outcome"],
  },
  mcpCallSeconds: {
    kind: "histogram",
    name: "latchkey_mcp_call_seconds",
    help: "Time that calls of tools of the MCP endpoint took, by kind.",
    labels: ["kind"],
  },
  httpOpen: {
    kind: "gauge",
    isHot: true,
    name: "latchkey_http_requests_open",
    help: "Requests that are not answered yet, by listener.",
    labels: ["door"],
  },
  connectionsOpen: {
    kind: "gauge",
    name: "latchkey_connections_open",
    help: "Open connections of clients, by listener.",
    labels: ["door"],
  },
  connectionsRefused: {
    kind: "counter",
    name: "latchkey_connections_refused_total",
    help: "Connections that a listener refused, by the limit that was reached: door (all of the listener), or address (one client).",
    labels: ["door", "limit"],
  },
  refused: {
    kind: "counter",
    name: "latchkey_refused_total",
    help: "Requests that a listener refused before a route handled them, by error code.",
    labels: ["door", "reason"],
  },
  ignoredFields: {
    kind: "counter",
    name: "latchkey_ignored_fields_total",
    help: "Unknown JSON and query fields that a route ignored.",
    labels: ["route"],
  },
  rpcCalls: {
    kind: "counter",
    name: "latchkey_rpc_calls_total",
    help: "Calls answered by the control plane, by method and code.",
    labels: ["method", "code"],
  },
  rpcSeconds: {
    kind: "histogram",
    name: "latchkey_rpc_call_seconds",
    help: "Time from a call's head to its answer; of a stream, to its end.",
    labels: ["method"],
  },
  watchers: { kind: "gauge", name: "latchkey_watchers_open", help: "Open watch streams.", labels: [] },
  watchersDropped: {
    kind: "counter",
    name: "latchkey_watchers_dropped_total",
    help: "Watch streams ended because their reader was too slow.",
    labels: [],
  },
  connectSockets: {
    kind: "gauge",
    name: "latchkey_connect_sockets_open",
    help: "Open WebSockets of pages that wait for the outcome of an authorization.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
