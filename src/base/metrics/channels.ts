import type { MetricRow } from "./row.ts";

/** How the channels are kept that notifications come over. */
export const channelMetrics = {
  channels: {
    kind: "gauge",
    name: "latchkey_channels",
    help: "Watch channels, by state: the same number in each replica.",
    labels: ["state"],
  },
  channelWatches: {
    kind: "counter",
    name: "latchkey_channel_watches_total",
    help: "Channels that providers were asked for, first ones and renewals, by outcome: made, renewed, adopted, gone, refused, put_off, unheard, id_taken, unsent.",
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
    help: "Problems of channels that applications depend on, by kind: expiring, renewal_failed, expired, failed, gap, silent, outcome_unknown, not_stopped.",
    labels: ["kind"],
  },
  channelNotices: {
    kind: "counter",
    name: "latchkey_channel_notices_total",
    help: "Notices of providers about channels themselves, by what was done: reauthorize, recreate, catch_up, end, renew.",
    labels: ["kind"],
  },
  channelConfirmations: {
    kind: "counter",
    name: "latchkey_channel_confirmations_total",
    help: "Challenges that confirm what a provider was asked for, by outcome: accepted, refused.",
    labels: ["outcome"],
  },
  channelCatchUps: {
    kind: "counter",
    name: "latchkey_channel_catch_ups_total",
    help: "Syncs started to catch up after a channel may have lost notifications, by outcome: asked, failed.",
    labels: ["outcome"],
  },
  channelsOverdue: {
    kind: "gauge",
    name: "latchkey_channels_overdue_seconds",
    help: "Delay of the oldest due task of a channel.",
    labels: [],
  },
} as const satisfies Record<string, MetricRow>;
