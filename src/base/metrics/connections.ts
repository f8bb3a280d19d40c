import type { MetricRow } from "./row.ts";

/** How connections come about, and how their credentials are kept fresh. */
export const connectionMetrics = {
  connectSessions: {
    kind: "counter",
    name: "latchkey_connect_sessions_total",
    help: "Connect sessions made.",
    labels: [],
  },
  authorizationsBegun: {
    kind: "counter",
    name: "latchkey_authorizations_begun_total",
    help: "End users sent to a provider, by kind of credentials.",
    labels: ["credentials"],
  },
  authorizations: {
    kind: "counter",
    name: "latchkey_authorizations_total",
    help: "Attempts of end users to connect that came to an end, by kind of credentials and outcome.",
    labels: ["credentials", "outcome"],
  },
  grantsNearlyUsedUp: {
    kind: "counter",
    name: "latchkey_grants_nearly_used_up_total",
    help: "Connections authorized for an account that has more than nine tenths of the live refresh tokens it may have.",
    labels: [],
  },
  imports: {
    kind: "counter",
    name: "latchkey_imported_connections_total",
    help: "Imported connections, by result.",
    labels: ["result"],
  },
  descriptions: {
    kind: "counter",
    name: "latchkey_descriptions_total",
    help: "Attempts to have a provider describe an imported connection, by outcome.",
    labels: ["outcome"],
  },
  descriptionsWaiting: {
    kind: "gauge",
    name: "latchkey_descriptions_waiting",
    help: "Imported connections whose provider is still to describe them: in the replica that asks, 0 in the others.",
    labels: [],
  },
  connectionsUnwell: {
    kind: "gauge",
    name: "latchkey_connections_unwell",
    help: "Connections that are not active, by state: the same number in each replica.",
    labels: ["state"],
  },
  tokenRequests: {
    kind: "counter",
    name: "latchkey_token_requests_total",
    help: "Requests to providers' token endpoints and related endpoints, by grant and outcome.",
    labels: ["grant", "outcome"],
  },
  tokenSeconds: {
    kind: "histogram",
    name: "latchkey_token_seconds",
    help: "Time from asking for a token until there was one, or none, by grant.",
    labels: ["grant"],
  },
  refreshes: {
    kind: "counter",
    name: "latchkey_refreshes_total",
    help: "Renewals of credentials, by outcome.",
    labels: ["outcome"],
  },
  refreshSeconds: {
    kind: "histogram",
    name: "latchkey_refresh_seconds",
    help: "Time that a provider's token endpoint took to answer a renewal.",
    labels: [],
  },
  refreshesOpen: {
    kind: "gauge",
    name: "latchkey_refreshes_open",
    help: "Renewals that wait for a provider now.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
