import type { MetricRow } from "./row.ts";

/** How connections come about, and how their credentials are kept fresh. */
export const connectionMetrics = {
  connectSessions: {
    kind: "counter",
    name: "latchkey_connect_sessions_total",
    help: "Connect sessions created.",
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
    help: "Ended attempts of end users to connect, by kind of credentials and outcome.",
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
    help: "Attempts to read values of an imported connection from its provider, by outcome.",
    labels: ["outcome"],
  },
  descriptionsWaiting: {
    kind: "gauge",
    name: "latchkey_descriptions_waiting",
    help: "Imported connections whose values are not yet read from the provider. 0 in replicas that do not ask.",
    labels: [],
  },
  revokedTokens: {
    kind: "counter",
    name: "latchkey_revoked_tokens_total",
    help: "Tokens of deleted connections, by what became of them at the provider.",
    labels: ["result"],
  },
  revocationsWaiting: {
    kind: "gauge",
    name: "latchkey_revocations_waiting",
    help: "Deleted connections whose grant is not revoked at the provider yet, up to 10,000. 0 in replicas that do not ask.",
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
    help: "Time of a token request, successful or not, by grant.",
    labels: ["grant"],
  },
  refreshes: {
    kind: "counter",
    name: "latchkey_refreshes_total",
    help: "Refreshes of credentials, by outcome.",
    labels: ["outcome"],
  },
  refreshSeconds: {
    kind: "histogram",
    name: "latchkey_refresh_seconds",
    help: "Time that a provider's token endpoint took to answer a refresh.",
    labels: [],
  },
  refreshesOpen: {
    kind: "gauge",
    name: "latchkey_refreshes_open",
    help: "Refreshes in progress.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
