import type { MetricRow } from "./row.ts";

/** Metrics of webhooks from providers, and of deliveries to applications. */
export const webhookMetrics = {
  notifications: {
    kind: "counter",
    isHot: true,
    name: "latchkey_notifications_total",
    help: "Webhooks of providers, by outcome: taken, repeated, challenge, refused, overloaded, test.",
    labels: ["outcome"],
  },
  notificationsRefused: {
    kind: "counter",
    name: "latchkey_notifications_refused_total",
    help: "Webhooks without a valid proof of their origin, by reason.",
    labels: ["reason"],
  },
  notificationsUnproven: {
    kind: "counter",
    isHot: true,
    name: "latchkey_notifications_unproven_total",
    help: "Webhooks accepted without a proof of their origin, by what is missing: no_scheme, no_secret.",
    labels: ["reason"],
  },
  notificationsMatched: {
    kind: "counter",
    isHot: true,
    name: "latchkey_notifications_matched_total",
    help: "Webhooks accepted, by the position of the provider's rule that found their connections; none: unmatched.",
    labels: ["rule"],
  },
  resourceIndexEntries: {
    kind: "gauge",
    name: "latchkey_resource_index_entries",
    help: "Values by which webhooks find their connections.",
    labels: [],
  },
  resourceIndexBytes: {
    kind: "gauge",
    name: "latchkey_resource_index_bytes",
    help: "Memory of the index of those values; 0: they are looked up in the store.",
    labels: [],
  },
  lookups: {
    kind: "counter",
    isHot: true,
    name: "latchkey_lookups_total",
    help: "Values by which webhooks looked for connections, by source: memory, recent (an answer of the store), store.",
    labels: ["source"],
  },
  lookupRowsScanned: {
    kind: "gauge",
    name: "latchkey_lookup_rows_scanned",
    help: "Connections scanned while lookups are written to the store, in the current scan of two.",
    labels: [],
  },
  outboxForwards: {
    kind: "gauge",
    isHot: true,
    name: "latchkey_outbox_forwards",
    help: "Pending deliveries to the application.",
    labels: [],
  },
  outboxOldest: {
    kind: "gauge",
    name: "latchkey_outbox_oldest_seconds",
    help: "Age of the oldest pending delivery.",
    labels: [],
  },
  delivering: {
    kind: "gauge",
    name: "latchkey_delivering",
    help: "1 at a replica that delivers, which each does for its partitions.",
    labels: [],
  },
  partitions: {
    kind: "gauge",
    name: "latchkey_partitions",
    help: "Partitions of the work, of 64, that belong to this replica.",
    labels: [],
  },
  deliveryAttempts: {
    kind: "counter",
    isHot: true,
    name: "latchkey_delivery_attempts_total",
    help: "Attempts to deliver, by outcome: delivered, failed, gone, impossible.",
    labels: ["outcome"],
  },
  deliverySeconds: {
    kind: "histogram",
    isHot: true,
    name: "latchkey_delivery_seconds",
    help: "Time from the creation of a delivery to the application's 2xx.",
    labels: [],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 1_800, 3_600, 21_600, 86_400, 324_000],
  },
  deadLetters: {
    kind: "counter",
    name: "latchkey_dead_letters_total",
    help: "Deliveries that failed for good. They can be replayed.",
    labels: [],
  },
  destinationsPaused: {
    kind: "counter",
    name: "latchkey_destinations_paused_total",
    help: "Times that an application answered 410, which pauses its address until it is resumed.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
