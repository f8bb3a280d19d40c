import type { World } from "../base/world.ts";
import type { StoredChannel } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../store/contract.ts";
import type { Collections } from "./collections.ts";
import type { Forwards } from "./deliveries/forwards.ts";
import { type FeedRequest, type FeedStep, feed } from "./stored/watch-feed.ts";
import { type WebhookFeedRequest, type WebhookStep, webhookFeed } from "./webhooks/webhook-feed.ts";

/** The resources that callers can watch. */
export interface Feeds {
  readonly connections: (request: FeedRequest) => AsyncGenerator<FeedStep<Connection>>;
  readonly channels: (request: FeedRequest) => AsyncGenerator<FeedStep<StoredChannel>>;
  readonly integrations: (request: FeedRequest) => AsyncGenerator<FeedStep<Integration>>;
  readonly webhooks: (request: WebhookFeedRequest) => AsyncGenerator<WebhookStep>;
}

interface FeedsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly forwards: Forwards;
  readonly world: World;
}

export const createFeeds = ({ store, collections, forwards, world }: FeedsOptions): Feeds => ({
  connections: (request) => feed({ store, records: collections.connections, world }, request),
  channels: (request) => feed({ store, records: collections.channels, world }, request),
  integrations: (request) => feed({ store, records: collections.integrations, world }, request),
  webhooks: (request) => webhookFeed({ store, collections, forwards, world }, request),
});
