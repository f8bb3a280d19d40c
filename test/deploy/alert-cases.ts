interface AlertCase {
  /** Series, and their values from minute to minute, as promtool writes them. */
  readonly fires: readonly string[];
  /** Series that must not fire, each by itself: too early, or already over. */
  readonly stays: readonly (readonly string[])[];
  /** The time of the check; default: after half an hour. */
  readonly at?: string;
}

const one = 'namespace="n",app="a",pod="a-1",job="latchkey"';
const two = 'namespace="n",app="a",pod="a-2",job="latchkey"';
const other = 'namespace="n",app="b",pod="b-1",job="latchkey"';

/** Writes that took so long: all in the bucket of this bound. */
const writes = (bound: number) =>
  [0.001, 0.01, 0.1, 0.5, 1, 5, Number.POSITIVE_INFINITY].map((le) => {
    const labels = `${one},le="${le === Number.POSITIVE_INFINITY ? "+Inf" : le}"`;
    return `latchkey_store_write_seconds_bucket{${labels}} 0+${le >= bound ? 60 : 0}x40`;
  });

/** When each alert must fire. */
export const alertCases: Readonly<Record<string, AlertCase>> = {
  LatchkeyDown: {
    fires: [`up{${one}} 0x30`],
    stays: [[`up{${one}} 1x30`], [`up{${one}} 1x28 0x2`], ['up{job="somebody-else"} 0x30']],
  },
  LatchkeyNotReady: {
    fires: [`latchkey_ready{${one}} 0x30`, `latchkey_ready{${two}} 1x30`],
    // A rolling restart, a start that waits.
    stays: [[`latchkey_ready{${one}} 1x26 0x4`]],
  },
  LatchkeyOverloaded: {
    fires: [`latchkey_overloaded{${one}} 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 0 1 0 0 0 1 0`],
    stays: [[`latchkey_overloaded{${one}} 0x26 1 0x3`]],
  },
  LatchkeyUnhandledErrors: {
    fires: [`latchkey_unhandled_errors_total{${one}} 0x25 1x5`],
    stays: [[`latchkey_unhandled_errors_total{${one}} 3x30`]],
  },
  LatchkeyConfigurationRejected: {
    fires: [`latchkey_config_rejected{${one}} 1x30`],
    stays: [[`latchkey_config_rejected{${one}} 0x27 1x3`]],
  },
  LatchkeyCertificateExpiring: {
    fires: [`latchkey_certificate_end_seconds{${one},door="control"} 1200000x120`],
    stays: [[`latchkey_certificate_end_seconds{${one},door="control"} 1300000x120`]],
    at: "90m",
  },
  LatchkeyStoreNotWritable: {
    fires: [`latchkey_store_writable{${one}} 0x30`],
    stays: [[`latchkey_store_writable{${one}} 1x29 0`]],
  },
  LatchkeyStoreDamaged: {
    fires: [`latchkey_store_damaged{${one}} 0x29 1`],
    stays: [[`latchkey_store_damaged{${one}} 0x30`]],
  },
  LatchkeyStoreStalled: {
    fires: [`latchkey_store_commits_waiting{${one}} 5x30`, `latchkey_store_commits_total{${one}} 100x30`],
    stays: [
      // Busy.
      [`latchkey_store_commits_waiting{${one}} 5x30`, `latchkey_store_commits_total{${one}} 100+50x30`],
      // Nothing to do.
      [`latchkey_store_commits_waiting{${one}} 0x30`, `latchkey_store_commits_total{${one}} 100x30`],
    ],
  },
  LatchkeyStoreSlow: { fires: writes(1), stays: [writes(0.5), writes(0.01)] },
  LatchkeyStoreDiskLow: {
    fires: [`latchkey_store_free_bytes{${one}} 400000000x30`],
    // PostgreSQL's disk is its own: 0.
    stays: [[`latchkey_store_free_bytes{${one}} 600000000x30`], [`latchkey_store_free_bytes{${one}} 0x30`]],
  },
  LatchkeyStoreBehind: {
    fires: [
      `latchkey_store_revision{${one}} 100+1x30`,
      `latchkey_store_revision{${two}} 90x30`,
      `latchkey_store_free_bytes{${one}} 0x30`,
      `latchkey_store_free_bytes{${two}} 0x30`,
    ],
    stays: [
      // Both replicas follow all changes, one a little later.
      [`latchkey_store_revision{${one}} 100+1x30`, `latchkey_store_revision{${two}} 90+1x30`],
      [`latchkey_store_revision{${one}} 100x30`, `latchkey_store_revision{${two}} 100x30`],
      // Two stores, of two applications, and two embedded ones of one.
      [`latchkey_store_revision{${one}} 100+1x30`, `latchkey_store_revision{${other}} 90x30`],
      [
        `latchkey_store_revision{${one}} 100+1x30`,
        `latchkey_store_revision{${two}} 90x30`,
        `latchkey_store_free_bytes{${two}} 1000000000x30`,
      ],
    ],
  },
  LatchkeySealsMany: {
    fires: [`latchkey_seals_total{${one},operation="seal"} 0+20000000x30`],
    stays: [
      [`latchkey_seals_total{${one},operation="seal"} 0+100000x30`],
      [`latchkey_seals_total{${one},operation="open"} 0+20000000x30`],
    ],
  },
  LatchkeyReauthorizationRequired: {
    fires: [`latchkey_connections_unwell{${one},state="reauthorization_required"} 500x60 530x30`],
    stays: [
      [`latchkey_connections_unwell{${one},state="reauthorization_required"} 500x60 515x30`],
      [`latchkey_connections_unwell{${one},state="reauthorization_required"} 500x90`],
      [`latchkey_connections_unwell{${one},state="expiring"} 0x60 530x30`],
    ],
    at: "90m",
  },
  LatchkeyRefreshFailing: {
    // The same number in each replica.
    fires: [11, 11].map((n, i) => `latchkey_connections_unwell{${[one, two][i]},state="refresh_failing"} ${n}x30`),
    stays: [
      [9, 9].map((n, i) => `latchkey_connections_unwell{${[one, two][i]},state="refresh_failing"} ${n}x30`),
      [`latchkey_connections_unwell{${one},state="refresh_failing"} 0x20 50x10`],
    ],
  },
  LatchkeyGrantsNearlyUsedUp: {
    fires: [`latchkey_grants_nearly_used_up_total{${one}} 0x20 1x10`],
    stays: [[`latchkey_grants_nearly_used_up_total{${one}} 4x30`]],
  },
  LatchkeyProviderErrors: {
    fires: [
      `latchkey_proxy_requests_total{${one},answer="2xx"} 0+90x30`,
      `latchkey_proxy_requests_total{${one},answer="5xx"} 0+3x30`,
      `latchkey_proxy_refused_total{${one},reason="provider_unreachable"} 0+3x30`,
    ],
    stays: [
      [
        `latchkey_proxy_requests_total{${one},answer="2xx"} 0+97x30`,
        `latchkey_proxy_requests_total{${one},answer="5xx"} 0+1x30`,
        `latchkey_proxy_refused_total{${one},reason="provider_timeout"} 0+1x30`,
      ],
      // Wrong requests of callers are not the provider's failures.
      [
        `latchkey_proxy_requests_total{${one},answer="4xx"} 0+90x30`,
        `latchkey_proxy_requests_total{${one},answer="5xx"} 0x30`,
        `latchkey_proxy_refused_total{${one},reason="unknown_connection"} 0+90x30`,
      ],
    ],
  },
  LatchkeyEgressProxyFailing: {
    fires: [
      `latchkey_egress_proxy_connections_total{${one},outcome="opened"} 0+90x30`,
      `latchkey_egress_proxy_connections_total{${one},outcome="unreachable"} 0+3x30`,
      `latchkey_egress_proxy_connections_total{${two},outcome="unauthorized"} 0+3x30`,
    ],
    stays: [
      [
        `latchkey_egress_proxy_connections_total{${one},outcome="opened"} 0+97x30`,
        `latchkey_egress_proxy_connections_total{${one},outcome="no_answer"} 0+1x30`,
      ],
      // Hosts that the proxy forbids or cannot reach.
      [
        `latchkey_egress_proxy_connections_total{${one},outcome="opened"} 0+10x30`,
        `latchkey_egress_proxy_connections_total{${one},outcome="refused"} 0+90x30`,
        `latchkey_egress_proxy_connections_total{${one},outcome="failed"} 0+90x30`,
      ],
      // Over since ten minutes.
      [
        `latchkey_egress_proxy_connections_total{${one},outcome="unreachable"} 0+3x20 60x20`,
        `latchkey_egress_proxy_connections_total{${one},outcome="opened"} 0x20 0+60x20`,
      ],
    ],
  },
  LatchkeyOutboxOld: {
    fires: [`latchkey_outbox_oldest_seconds{${one}} 3000+60x30`],
    stays: [[`latchkey_outbox_oldest_seconds{${one}} 1000+60x30`]],
  },
  LatchkeyOutboxFull: {
    fires: [`latchkey_outbox_forwards{${one}} 160000x30`],
    stays: [[`latchkey_outbox_forwards{${one}} 140000x30`]],
  },
  LatchkeyNobodyDelivers: {
    fires: [
      `latchkey_delivering{${one}} 1x30`,
      `latchkey_delivering{${two}} 1x30`,
      `latchkey_partitions{${one}} 32x30`,
      `latchkey_partitions{${two}} 31x30`,
      `latchkey_outbox_forwards{${one}} 1x30`,
    ],
    stays: [
      [
        `latchkey_delivering{${one}} 0x30`,
        `latchkey_delivering{${two}} 1x30`,
        `latchkey_partitions{${one}} 0x30`,
        `latchkey_partitions{${two}} 64x30`,
        `latchkey_outbox_forwards{${one}} 9x30`,
      ],
      [`latchkey_delivering{${one}} 0x30`, `latchkey_outbox_forwards{${one}} 0x30`],
    ],
  },
  LatchkeyDeadLetters: {
    fires: [`latchkey_dead_letters_total{${one}} 0x20 2x10`],
    stays: [[`latchkey_dead_letters_total{${one}} 7x30`]],
  },
  LatchkeyDestinationPaused: {
    fires: [`latchkey_destinations_paused_total{${one}} 0x20 1x10`],
    stays: [[`latchkey_destinations_paused_total{${one}} 1x30`]],
  },
  LatchkeyWebhooksRefused: {
    fires: [`latchkey_notifications_refused_total{${one},reason="signature"} 0+5x30`],
    stays: [[`latchkey_notifications_refused_total{${one},reason="signature"} 0+1x30`]],
  },
  LatchkeyChannelsOverdue: {
    fires: [`latchkey_channels_overdue_seconds{${one}} 0+60x30`],
    stays: [[`latchkey_channels_overdue_seconds{${one}} 0 30 60 0 30 60 0x24`]],
  },
  LatchkeyChannelsExpiring: {
    fires: [`latchkey_channel_alerts_total{${one},kind="renewal_failed"} 0x20 1x10`],
    stays: [
      [`latchkey_channel_alerts_total{${one},kind="renewal_failed"} 1x30`],
      [`latchkey_channel_alerts_total{${one},kind="outcome_unknown"} 0x20 1x10`],
    ],
  },
  LatchkeyRunsOverdue: {
    fires: [`latchkey_runs_overdue_seconds{${one}} 0+60x30`],
    stays: [[`latchkey_runs_overdue_seconds{${one}} 0 30 60 0 30 60 0x24`]],
  },
  LatchkeyRunsFailing: {
    fires: [
      `latchkey_runs_total{${one},kind="sync",outcome="failed"} 0+1x30`,
      `latchkey_runs_total{${one},kind="sync",outcome="succeeded"} 5x30`,
    ],
    stays: [
      [
        `latchkey_runs_total{${one},kind="sync",outcome="failed"} 0+1x30`,
        `latchkey_runs_total{${one},kind="sync",outcome="succeeded"} 0+5x30`,
      ],
      // A single failure at night is no alert.
      [`latchkey_runs_total{${one},kind="sync",outcome="failed"} 0x20 1x10`],
    ],
  },
  LatchkeyScriptsBroken: {
    fires: [`latchkey_scripts_broken{${one}} 1x30`],
    stays: [[`latchkey_scripts_broken{${one}} 0x22 1x8`]],
  },
};
