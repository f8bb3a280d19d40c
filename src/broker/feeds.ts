import type { World } from "../base/world.ts";
import { runOf } from "../core/scripts/sync-state.ts";
import type { StoredChannel, StoredRun } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { AuditEvent, Log } from "../gen/latchkey/v1/log_pb.ts";
import type { Store } from "../store/contract.ts";
import { type AuditFilter, auditMatcher } from "./audit/audit.ts";
import { type LogFilter, logMatcher } from "./audit/log-filter.ts";
import type { Collections } from "./collections.ts";
import type { Destinations } from "./deliveries/destinations.ts";
import type { Forwards } from "./deliveries/forwards.ts";
import { createTails, type TailStep } from "./stored/tails.ts";
import { type FeedRequest, type FeedStep, feed } from "./stored/watch-feed.ts";
import { isWantedRun, type RunFilter } from "./syncs/runs/runs.ts";
import { type WebhookFeedRequest, type WebhookStep, webhookFeed } from "./webhooks/webhook-feed.ts";

/** The resources that callers can watch. */
export interface Feeds {
  readonly connections: (request: FeedRequest) => AsyncGenerator<FeedStep<Connection>>;
  readonly channels: (request: FeedRequest) => AsyncGenerator<FeedStep<StoredChannel>>;
  readonly integrations: (request: FeedRequest) => AsyncGenerator<FeedStep<Integration>>;
  readonly webhooks: (request: WebhookFeedRequest) => AsyncGenerator<WebhookStep>;
  /** New logs, from now on. */
  readonly logs: (filter: LogFilter, signal: AbortSignal) => AsyncGenerator<TailStep<Log>>;
  /** New events of the audit trail, from now on. */
  readonly auditEvents: (filter: AuditFilter, signal: AbortSignal) => AsyncGenerator<TailStep<AuditEvent>>;
  /** Runs as they are queued, start and end, from now on. */
  readonly runs: (filter: RunFilter, signal: AbortSignal) => AsyncGenerator<TailStep<StoredRun>>;
}

interface FeedsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly forwards: Forwards;
  readonly destinations: Pick<Destinations, "isCurrent">;
  readonly world: World;
}

export function createFeeds({ store, collections, forwards, destinations, world }: FeedsOptions): Feeds {
  const tail = createTails({ store, world });
  keepHistory(store, [collections.connections.name, collections.channels.name, collections.integrations.name]);
  return {
    connections: (request) => feed({ store, records: collections.connections, world }, request),
    channels: (request) => feed({ store, records: collections.channels, world }, request),
    integrations: (request) => feed({ store, records: collections.integrations, world }, request),
    webhooks: (request) => webhookFeed({ store, collections, forwards, world }, request),
    logs: (filter, signal) =>
      tail(collections.logs, { under: [filter.environment], isWanted: logMatcher(filter), signal }),
    auditEvents: (filter, signal) => tail(collections.audit, { under: [], isWanted: auditMatcher(filter), signal }),
    runs(filter, signal) {
      const { environment } = filter;
      const isWanted = (stored: StoredRun) =>
        destinations.isCurrent({ environment, environmentId: stored.environmentId }) &&
        isWantedRun(runOf(stored), filter);
      return tail(collections.runs, { under: [environment], isWanted, signal });
    },
  };
}

/** Follows what can be resumed, so that its history is known also between two watches. */
function keepHistory(store: Store, spaces: readonly string[]): void {
  store.watch(store.status().revision, { spaces, onCommit() {}, onLost() {} }).catch(() => {
    // Without it, a watch that resumes gets a snapshot.
  });
}
