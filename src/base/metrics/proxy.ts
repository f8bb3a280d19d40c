import type { MetricRow } from "./row.ts";

/** Metrics of proxied requests, and of those refused before they reach a provider. */
export const proxyMetrics = {
  liveLookups: {
    kind: "counter",
    isHot: true,
    name: "latchkey_live_lookups_total",
    help: "Connections looked up for use, by whether they were in memory.",
    labels: ["result"],
  },
  proxyRequests: {
    kind: "counter",
    isHot: true,
    name: "latchkey_proxy_requests_total",
    help: "Requests that went to a provider, by kind of credentials and the class of the answer.",
    labels: ["credentials", "answer"],
  },
  integrationRequests: {
    kind: "counter",
    isHot: true,
    name: "latchkey_integration_requests_total",
    help: "Requests that went to an integration, by the class of the provider's answer; `latchkey` for an error of Latchkey, `none` if the caller left first. Integrations beyond the first 100 are counted as `(other)`.",
    labels: ["environment", "integration", "answer"],
  },
  integrationSeconds: {
    kind: "histogram",
    isHot: true,
    name: "latchkey_integration_seconds",
    help: "Time until the response to a request to an integration was over. Integrations beyond the first 100 are counted as `(other)`.",
    labels: ["environment", "integration"],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  },
  proxyRefused: {
    kind: "counter",
    name: "latchkey_proxy_refused_total",
    help: "Requests that never reached a provider, or got no answer from it, by error code.",
    labels: ["reason"],
  },
  proxyAddedSeconds: {
    kind: "histogram",
    isHot: true,
    name: "latchkey_proxy_added_seconds",
    help: "Time from reading a request's head until the head to the provider is sent.",
    labels: [],
  },
  proxyBytes: {
    kind: "counter",
    isHot: true,
    name: "latchkey_proxy_bytes_total",
    help: "Bytes of bodies relayed, by direction.",
    labels: ["direction"],
  },
  proxyCut: {
    kind: "counter",
    name: "latchkey_proxy_cut_total",
    help: "Answers that were cut, by who ended them.",
    labels: ["by"],
  },
  proxyRefusals: {
    kind: "counter",
    name: "latchkey_proxy_refusals_total",
    help: "Answers of 401 that were held back while newer credentials were fetched.",
    labels: [],
  },
  proxyRetries: {
    kind: "counter",
    name: "latchkey_proxy_retries_total",
    help: "Requests that were sent again because the caller asked for it.",
    labels: [],
  },
  proxyOpen: {
    kind: "gauge",
    isHot: true,
    name: "latchkey_proxy_open",
    help: "Requests and tunnels in progress.",
    labels: [],
  },
  proxyHandedOver: {
    kind: "counter",
    name: "latchkey_proxy_handed_over_total",
    help: "Client connections that an unusual request moved from the fast lane to the general lane.",
    labels: [],
  },
  proxyLimited: {
    kind: "counter",
    name: "latchkey_proxy_limited_total",
    help: "Requests to providers that were refused because of a limit, by the limit.",
    labels: ["limit"],
  },
  proxyConnections: {
    kind: "gauge",
    name: "latchkey_proxy_connections",
    help: "Connections to providers, idle or in use, and requests that wait for a connection, by state.",
    labels: ["state"],
  },
  egressConnections: {
    kind: "counter",
    name: "latchkey_egress_proxy_connections_total",
    help: "Connections through the egress proxy, by outcome: opened, unreachable, unauthorized, refused, failed, no_answer.",
    labels: ["outcome"],
  },
  rateBuckets: {
    kind: "gauge",
    name: "latchkey_rate_buckets",
    help: "Keys, integrations and connections that have used some of their rate, by the limit.",
    labels: ["limit"],
  },
} as const satisfies Record<string, MetricRow>;
