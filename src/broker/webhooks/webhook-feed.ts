import type { World } from "../../base/world.ts";
import type { Forward, Notification } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Forwards } from "../deliveries/forwards.ts";
import { outlineOf } from "../deliveries/notifications.ts";
import type { WebhookCollections } from "../deliveries/webhook-collections.ts";
import { type FeedRequest, feed } from "../stored/watch-feed.ts";

export type WebhookStep =
  | { readonly case: "notification"; readonly value: Notification }
  | { readonly case: "forward"; readonly value: Forward };

export interface WebhookFeedRequest extends Pick<FeedRequest, "signal" | "onOverrun"> {
  readonly environment: string;
  /** Empty for all. */
  readonly integration: string;
}

interface WebhookFeedOptions {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly forwards: Forwards;
  readonly world: World;
}

/** Yields new notifications and forwards from now on, until the signal aborts. */
export async function* webhookFeed(
  { store, collections, forwards, world }: WebhookFeedOptions,
  { environment, integration, ...watcher }: WebhookFeedRequest,
): AsyncGenerator<WebhookStep> {
  const request = { ...watcher, under: [environment], from: 0, changesOnly: true };
  const isWanted = (of: { readonly integration: string }) => integration === "" || of.integration === integration;

  async function* notified(): AsyncGenerator<WebhookStep> {
    for await (const step of feed({ store, records: collections.notifications, world }, request)) {
      const notification = step.kind === "put" ? step.value.notification : undefined;
      if (notification !== undefined && isWanted(notification)) {
        yield { case: "notification", value: outlineOf(notification) };
      }
    }
  }
  async function* forwarded(): AsyncGenerator<WebhookStep> {
    for await (const step of feed({ store, records: collections.forwards, world }, request)) {
      if (step.kind !== "put" || !isWanted(step.value)) continue;
      yield { case: "forward", value: forwards.outline(step) };
    }
  }
  yield* merged([notified(), forwarded()]);
}

/** Yields the steps of all sources as they arrive. When one source ends, all end. */
async function* merged<T>(sources: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  const next = (source: AsyncGenerator<T>) => source.next().then((result) => ({ source, result }));
  const pending = new Map(sources.map((source) => [source, next(source)]));
  try {
    for (;;) {
      const { source, result } = await Promise.race(pending.values());
      if (result.done === true) return;
      yield result.value;
      pending.set(source, next(source));
    }
  } finally {
    // A source that waits for its next step is ended by the signal.
    for (const source of sources) void source.return(undefined).catch(() => {});
  }
}
