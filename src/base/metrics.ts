import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { createTallies, createTimings, type Family, type Tally, type Timing } from "./series.ts";

/**
 * Every metric of ours, declared here and nowhere else. No connection id, path, host or key is ever a label:
 * the number of series is bounded by what is written in the code.
 */
export const metricTable = {
  ready: { kind: "gauge", name: "latchkey_ready", help: "1 while the sidecar takes requests.", labels: [] },
  buildInfo: {
    kind: "gauge",
    name: "latchkey_build_info",
    help: "Always 1; the labels say what runs.",
    labels: ["version", "node"],
  },
  httpRequests: {
    kind: "counter",
    isHot: true,
    name: "latchkey_http_requests_total",
    help: "Requests answered, by door, route pattern and status.",
    labels: ["door", "route", "status"],
  },
  httpSeconds: {
    kind: "histogram",
    isHot: true,
    name: "latchkey_http_request_seconds",
    help: "Time from a request's head to the end of its answer.",
    labels: ["door", "route"],
  },
  httpOpen: {
    kind: "gauge",
    isHot: true,
    name: "latchkey_http_requests_open",
    help: "Requests that are not answered yet, by door.",
    labels: ["door"],
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
  refused: {
    kind: "counter",
    name: "latchkey_refused_total",
    help: "What a door turned away before any route saw it, by fault code.",
    labels: ["door", "reason"],
  },
  ignoredFields: {
    kind: "counter",
    name: "latchkey_ignored_fields_total",
    help: "JSON and query fields that a route does not know, and ignored.",
    labels: ["route"],
  },
  watchers: { kind: "gauge", name: "latchkey_watchers_open", help: "Open watch streams.", labels: [] },
  watchersDropped: {
    kind: "counter",
    name: "latchkey_watchers_dropped_total",
    help: "Watch streams ended because their reader was too slow.",
    labels: [],
  },
  storeWritable: {
    kind: "gauge",
    name: "latchkey_store_writable",
    help: "1 while the store takes writes.",
    labels: [],
  },
  storeRevision: { kind: "gauge", name: "latchkey_store_revision", help: "Revision of the last commit.", labels: [] },
  storeCommits: { kind: "counter", name: "latchkey_store_commits_total", help: "Durable commits.", labels: [] },
  storeChanges: {
    kind: "counter",
    name: "latchkey_store_changes_total",
    help: "Keys written or deleted by durable commits.",
    labels: [],
  },
  storeConflicts: {
    kind: "counter",
    name: "latchkey_store_conflicts_total",
    help: "Commits refused because a key was not at the expected revision.",
    labels: [],
  },
  storeCommitSeconds: {
    kind: "histogram",
    name: "latchkey_store_commit_seconds",
    help: "Time from asking for a commit until it is durable.",
    labels: [],
  },
  storeWriteSeconds: {
    kind: "histogram",
    name: "latchkey_store_write_seconds",
    help: "Time that one durable write took, whoever shared it.",
    labels: [],
  },
  storeWaiting: {
    kind: "gauge",
    name: "latchkey_store_commits_waiting",
    help: "Commits that are being written or wait to be.",
    labels: [],
  },
  storeOverruns: {
    kind: "counter",
    name: "latchkey_store_overruns_total",
    help: "Commits refused because too many waited for the store already.",
    labels: [],
  },
  storeHistoryLost: {
    kind: "counter",
    name: "latchkey_store_history_lost_total",
    help: "Times that something in memory was read anew because the store's history had a gap.",
    labels: [],
  },
  storeFreeBytes: {
    kind: "gauge",
    name: "latchkey_store_free_bytes",
    help: "Bytes left on the disk of the embedded store.",
    labels: [],
  },
  storeTables: {
    kind: "gauge",
    name: "latchkey_store_level0_tables",
    help: "Tables of the embedded store that wait for compaction. At 8 it writes more slowly, at 12 it waits.",
    labels: [],
  },
  storeDamaged: {
    kind: "gauge",
    name: "latchkey_store_damaged",
    help: "What the last scrub found damaged. 0 is the only good value.",
    labels: [],
  },
  seals: {
    kind: "counter",
    name: "latchkey_seals_total",
    help: "Values sealed and opened, by operation.",
    labels: ["operation"],
  },
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
    help: "Connections authorised for an account that has more than nine tenths of the live refresh tokens it may have.",
    labels: [],
  },
  connectSockets: {
    kind: "gauge",
    name: "latchkey_connect_sockets_open",
    help: "Open WebSockets of pages that wait to hear what came of an authorization.",
    labels: [],
  },
  liveLookups: {
    kind: "counter",
    isHot: true,
    name: "latchkey_live_lookups_total",
    help: "Connections looked up for use, by whether memory had them.",
    labels: ["result"],
  },
  proxyRequests: {
    kind: "counter",
    isHot: true,
    name: "latchkey_proxy_requests_total",
    help: "Requests that went to a provider, by kind of credentials and the class of the answer.",
    labels: ["credentials", "answer"],
  },
  proxyRefused: {
    kind: "counter",
    name: "latchkey_proxy_refused_total",
    help: "Requests that never went to a provider, or had no answer from it, by fault code.",
    labels: ["reason"],
  },
  proxyAddedSeconds: {
    kind: "histogram",
    isHot: true,
    name: "latchkey_proxy_added_seconds",
    help: "Time from a request's head until its own head was on the way to the provider.",
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
    help: "Answers of 401 that were held back while other credentials were looked for.",
    labels: [],
  },
  refreshes: {
    kind: "counter",
    name: "latchkey_refreshes_total",
    help: "Renewals of credentials, by what came of them.",
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
    help: "Requests and tunnels under way.",
    labels: [],
  },
  proxyHandedOver: {
    kind: "counter",
    name: "latchkey_proxy_handed_over_total",
    help: "Callers' connections that something out of the ordinary has brought to the general lane.",
    labels: [],
  },
  proxyLimited: {
    kind: "counter",
    name: "latchkey_proxy_limited_total",
    help: "Requests to providers that were turned away to keep within a limit, by the limit.",
    labels: ["limit"],
  },
  overloaded: {
    kind: "gauge",
    name: "latchkey_overloaded",
    help: "1 while the process cannot keep up and turns new requests to providers away.",
    labels: [],
  },
  rateBuckets: {
    kind: "gauge",
    name: "latchkey_rate_buckets",
    help: "Keys, integrations and connections that have used some of their rate, by the limit.",
    labels: ["limit"],
  },
  proxyConnections: {
    kind: "gauge",
    name: "latchkey_proxy_connections",
    help: "Connections to providers, by whether they carry anything, and requests that wait for one.",
    labels: ["state"],
  },
  tokenRequests: {
    kind: "counter",
    name: "latchkey_token_requests_total",
    help: "What was asked of providers' token endpoints and their neighbours, by grant and what came of it.",
    labels: ["grant", "outcome"],
  },
  tokenSeconds: {
    kind: "histogram",
    name: "latchkey_token_seconds",
    help: "Time from asking for a token until there was one, or none, by grant.",
    labels: ["grant"],
  },
  imports: {
    kind: "counter",
    name: "latchkey_imported_connections_total",
    help: "Imported connections, by result.",
    labels: ["result"],
  },
  connectionsUnwell: {
    kind: "gauge",
    name: "latchkey_connections_unwell",
    help: "Connections that are not active, by state: the same number in each replica.",
    labels: ["state"],
  },
  resourceIndexEntries: {
    kind: "gauge",
    name: "latchkey_resource_index_entries",
    help: "Values that connections are filed under, by which notifications find them.",
    labels: [],
  },
  resourceIndexBytes: {
    kind: "gauge",
    name: "latchkey_resource_index_bytes",
    help: "Memory of the index of those values.",
    labels: [],
  },
  logsDeleted: {
    kind: "counter",
    name: "latchkey_logs_deleted_total",
    help: "Logs that were deleted because they were too old or too many.",
    labels: [],
  },
  notifications: {
    kind: "counter",
    isHot: true,
    name: "latchkey_notifications_total",
    help: "Webhooks of providers, by what became of them: taken, repeated, challenge, refused, overloaded, test.",
    labels: ["outcome"],
  },
  notificationsRefused: {
    kind: "counter",
    name: "latchkey_notifications_refused_total",
    help: "Webhooks that did not prove where they come from, by why not.",
    labels: ["reason"],
  },
  notificationsUnproven: {
    kind: "counter",
    name: "latchkey_notifications_unproven_total",
    help: "Webhooks taken though there is nothing to prove them by, by what is missing: no_scheme, no_secret.",
    labels: ["reason"],
  },
  notificationsMatched: {
    kind: "counter",
    isHot: true,
    name: "latchkey_notifications_matched_total",
    help: "Webhooks taken, by the position of the provider's rule that found their connections; none: unmatched.",
    labels: ["rule"],
  },
  outboxForwards: {
    kind: "gauge",
    isHot: true,
    name: "latchkey_outbox_forwards",
    help: "Forwards that wait for the application.",
    labels: [],
  },
  outboxOldest: {
    kind: "gauge",
    name: "latchkey_outbox_oldest_seconds",
    help: "For how long the oldest of them has waited.",
    labels: [],
  },
  delivering: {
    kind: "gauge",
    name: "latchkey_delivering",
    help: "1 at the replica that delivers for all.",
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
    help: "Time from a forward's making to the application's 2xx.",
    labels: [],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 1_800, 3_600, 21_600, 86_400, 324_000],
  },
  deadLetters: {
    kind: "counter",
    name: "latchkey_dead_letters_total",
    help: "Forwards that were given up, and can be replayed.",
    labels: [],
  },
  destinationsPaused: {
    kind: "counter",
    name: "latchkey_destinations_paused_total",
    help: "Times that an application answered 410, so that nothing more is sent there until somebody resumes it.",
    labels: [],
  },
  channels: {
    kind: "gauge",
    name: "latchkey_channels",
    help: "Notification channels that are kept, by state: the same number in each replica.",
    labels: ["state"],
  },
  channelWatches: {
    kind: "counter",
    name: "latchkey_channel_watches_total",
    help: "Channels that providers were asked for, first ones and renewals, by outcome: made, refused, put_off, unheard, id_taken, unsent.",
    labels: ["outcome"],
  },
  channelStops: {
    kind: "counter",
    name: "latchkey_channel_stops_total",
    help: "Channels that providers were asked to stop, by outcome: stopped, not_stopped.",
    labels: ["outcome"],
  },
  channelAlerts: {
    kind: "counter",
    name: "latchkey_channel_alerts_total",
    help: "What went wrong with channels that applications depend on: expiring, renewal_failed, expired, failed, gap, silent, outcome_unknown, not_stopped.",
    labels: ["kind"],
  },
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
  channelCatchUps: {
    kind: "counter",
    name: "latchkey_channel_catch_ups_total",
    help: "How often syncs were asked to catch up with what a channel may have lost, by outcome: asked, failed.",
    labels: ["outcome"],
  },
  channelsOverdue: {
    kind: "gauge",
    name: "latchkey_channels_overdue_seconds",
    help: "For how long that has waited about which something was to be done first.",
    labels: [],
  },
  configRejected: {
    kind: "gauge",
    name: "latchkey_config_rejected",
    help: "1 while the configuration file as it stands is refused and the last good one is in force.",
    labels: [],
  },
  certificateEnds: {
    kind: "gauge",
    name: "latchkey_certificate_end_seconds",
    help: "When the certificate of a door that speaks TLS runs out, in seconds since 1970, by door.",
    labels: ["door"],
  },
  spansDropped: {
    kind: "counter",
    name: "latchkey_spans_dropped_total",
    help: "Spans that no collector has taken.",
    labels: [],
  },
  logLinesLost: {
    kind: "counter",
    name: "latchkey_log_lines_lost_total",
    help: "Lines of the log that could not be written: nobody reads it any more, or there is no room for it.",
    labels: [],
  },
  unhandled: {
    kind: "counter",
    name: "latchkey_unhandled_errors_total",
    help: "Errors that no code caught. Each is a defect of latchkey's.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;

interface MetricRow {
  readonly kind: "counter" | "gauge" | "histogram";
  /** Counted for every request: its series are held by whoever counts. */
  readonly isHot?: boolean;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Of a histogram, in place of the usual ones. */
  readonly buckets?: readonly number[];
}

type Table = typeof metricTable;
type Label<N extends keyof Table> = Table[N]["labels"][number];
type Instrument<N extends keyof Table> = Table[N] extends { readonly isHot: true }
  ? Family<Label<N>, { counter: Tally; gauge: Tally; histogram: Timing }[Table[N]["kind"]]>
  : { counter: Counter<Label<N>>; gauge: Gauge<Label<N>>; histogram: Histogram<Label<N>> }[Table[N]["kind"]];

export type Metrics = { readonly [N in keyof Table]: Instrument<N> } & {
  /** Everything, in the text format of Prometheus. */
  exposition(): Promise<{ readonly contentType: string; readonly text: string }>;
};

/** From half a millisecond to a minute: a look-up in memory and a slow provider both have their buckets. */
const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** A registry of its own for each sidecar, so that two in one process do not count together. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const make = ({ kind, isHot, name, help, labels, buckets = secondsBuckets }: MetricRow) => {
    if (isHot === true) {
      const declared = { name, help, labels };
      const family = kind === "histogram" ? createTimings(declared, buckets) : createTallies(declared, kind);
      // All that a registry wants of a metric is its name and its values.
      registry.registerMetric(Object.assign(family, { name }) as unknown as Counter);
      return family;
    }
    const options = { name, help, labelNames: [...labels], registers: [registry] };
    if (kind === "counter") return new Counter(options);
    if (kind === "gauge") return new Gauge(options);
    return new Histogram({ ...options, buckets: [...buckets] });
  };
  const instruments = Object.fromEntries(Object.entries(metricTable).map(([key, row]) => [key, make(row)]));
  const exposition = async () => ({ contentType: registry.contentType, text: await registry.metrics() });
  // The row's kind decides which class was made: the mapped type says the same of each name.
  return { ...instruments, exposition } as unknown as Metrics;
}
