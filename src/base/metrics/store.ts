import type { MetricRow } from "./row.ts";

/** How the store does. */
export const storeMetrics = {
  storeWritable: {
    kind: "gauge",
    name: "latchkey_store_writable",
    help: "1 while the store takes writes.",
    labels: [],
  },
  storeRevision: { kind: "gauge", name: "latchkey_store_revision", help: "Revision of the last commit.", labels: [] },
  storeCommits: {
    kind: "counter",
    name: "latchkey_store_commits_total",
    help: "Durable commits.",
    isHot: true,
    labels: [],
  },
  storeChanges: {
    kind: "counter",
    name: "latchkey_store_changes_total",
    help: "Keys written or deleted by durable commits.",
    isHot: true,
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
    isHot: true,
    labels: [],
  },
  storeWriteSeconds: {
    kind: "histogram",
    name: "latchkey_store_write_seconds",
    help: "Time of one durable write, which several commits may share.",
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
    help: "Times that memory was rebuilt from the store because the store's history had a gap.",
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
    help: "Damage that the last scrub found. 0 is the only good value.",
    labels: [],
  },
  seals: {
    kind: "counter",
    name: "latchkey_seals_total",
    help: "Values encrypted and decrypted, by operation.",
    labels: ["operation"],
  },
} as const satisfies Record<string, MetricRow>;
