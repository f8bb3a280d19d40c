import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { anyForward } from "../../broker/deliveries/forward-list.ts";
import type { ForwardPreview } from "../../broker/deliveries/forward-selection.ts";
import type { Header, ReplayForwardsRequest, WebhookService } from "../../gen/latchkey/v1/webhook_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import { maxPageBytes } from "../server/page-bytes.ts";
import { watcherOf } from "../server/watch.ts";

type WebhookMethods = ServiceImpl<typeof WebhookService>;

export const webhookService = (broker: Broker): WebhookMethods => {
  const { environments, notifications, forwards, webhooks, webhookReceivers, feeds } = broker;

  async function receiverOf(environment: string, integration: string) {
    return webhookReceivers.findIn(await environments.get(environment), integration);
  }

  return {
    ...forwardMethods(broker),
    ...destinationMethods(broker),
    async listNotifications(
      { environment: requested, integration, connectionId, unmatched, since, until, kind, text, ...request },
      context,
    ) {
      requireIntegration({ integration, connectionId });
      const environment = await environments.of(callerOf(context), requested);
      const filter = {
        environment,
        integration,
        connectionId,
        unmatched,
        sinceMs: msOf(since),
        untilMs: msOf(until),
        kind,
        text,
      };
      const { items, next } = await notifications.list(filter, { ...pageOf(request), maxBytes: maxPageBytes });
      return { notifications: [...items], nextPageToken: next };
    },
    async getNotification({ environment: requested, id }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const notification = await notifications.get({ environment, id });
      return { notification, forwards: [...(await forwards.ofNotification(environment, id))] };
    },
    async assignNotification({ environment: requested, id, connectionId }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      await broker.assignNotification({ environment, id, connectionId }, caller.keyId);
      const notification = await notifications.get({ environment, id });
      return { notification, forwards: [...(await forwards.ofNotification(environment, id))] };
    },
    async *watchNotifications({ environment: requested, integration }, context) {
      const environment = await environments.of(callerOf(context), requested);
      for await (const step of feeds.webhooks({ environment, integration, ...watcherOf(context) }))
        yield { event: step };
    },
    async sendTestNotification({ environment: requested, integration, headers, body }, context) {
      const receiver = await receiverOf(await environments.of(callerOf(context), requested), integration);
      return { notification: await webhooks.accept(receiver, receivedOf(headers, body)) };
    },
    async explainWebhook({ environment: requested, integration, headers, body }, context) {
      const receiver = await receiverOf(await environments.of(callerOf(context), requested), integration);
      const { rule, field, matches, fault } = await webhooks.explain(receiver, receivedOf(headers, body));
      return { matchedRule: rule, field, matches: [...matches], ...(fault && { problem: problemOf(fault) }) };
    },
  };
};

type ForwardMethods = Pick<WebhookMethods, "listForwards" | "getForward" | "replayForwards" | "cancelForwards">;

function forwardMethods({ environments, forwards }: Pick<Broker, "environments" | "forwards">): ForwardMethods {
  /** Reads the forwards that a request names. */
  async function selectionOf(
    { environment: requested, ids, filter }: Pick<ReplayForwardsRequest, "environment" | "ids" | "filter">,
    context: HandlerContext,
  ) {
    if ((ids.length === 0) === (filter === undefined)) {
      throw new Fault("invalid_body", "give either `ids` or `filter`, not both");
    }
    if (filter !== undefined) requireIntegration(filter);
    const caller = callerOf(context);
    return { selection: { environment: await environments.of(caller, requested), ids, filter }, caller };
  }

  return {
    async listForwards({ environment: requested, filter = anyForward, ...request }, context) {
      requireIntegration(filter);
      const environment = await environments.of(callerOf(context), requested);
      const { items, next } = await forwards.list(
        { environment, filter },
        { ...pageOf(request), maxBytes: maxPageBytes },
      );
      return { forwards: [...items], nextPageToken: next };
    },
    async getForward({ environment: requested, id }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const { forward, attempts } = await forwards.get({ environment, id });
      return { forward, attempts: [...attempts] };
    },
    async replayForwards({ validateOnly, ...request }, context) {
      const { selection, caller } = await selectionOf(request, context);
      if (validateOnly) {
        const { count, ...preview } = await forwards.previewReplay(selection, context.signal);
        return { replayed: BigInt(count), ...shownPreview(preview) };
      }
      const { replayed, refused } = await forwards.replay(selection, caller.keyId);
      return { replayed: BigInt(replayed), refused: problemsOf(refused) };
    },
    async cancelForwards({ validateOnly, ...request }, context) {
      const { selection, caller } = await selectionOf(request, context);
      if (validateOnly) {
        const { count, ...preview } = await forwards.previewCancel(selection, context.signal);
        return { cancelled: BigInt(count), ...shownPreview(preview) };
      }
      const { cancelled, refused } = await forwards.cancel(selection, caller.keyId);
      return { cancelled: BigInt(cancelled), refused: problemsOf(refused) };
    },
  };
}

type DestinationMethods = Pick<
  WebhookMethods,
  "listDestinations" | "pauseDestination" | "testDestination" | "resumeDestination"
>;

function destinationMethods(broker: Broker): DestinationMethods {
  const { environments, destinations, destinationControl } = broker;
  return {
    async listDestinations({ environment: requested }, context) {
      const environment = await environments.of(callerOf(context), requested);
      return { destinations: [...broker.destinationsOf(environment)] };
    },
    async pauseDestination({ environment: requested, url, reason }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      await destinationControl.pause({ environment, url }, { actor: caller.keyId, note: reason });
      return { destination: broker.destinationsOf(environment).find((one) => one.url === url) };
    },
    async testDestination({ environment: requested, url }, context) {
      const environment = await environments.of(callerOf(context), requested);
      return destinationControl.test({ environment, url }, context.signal);
    },
    async resumeDestination({ environment: requested, url }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      await destinations.resume({ environment, url }, caller.keyId);
      return { destination: broker.destinationsOf(environment).find((one) => one.url === url) };
    },
  };
}

const problemsOf = (refused: ReadonlyMap<string, Fault>) =>
  Object.fromEntries([...refused].map(([id, fault]) => [id, problemOf(fault)] as const));

const shownPreview = ({ refused, sample, hasMore }: Omit<ForwardPreview, "count">) => ({
  refused: problemsOf(refused),
  sample: [...sample],
  hasMore,
});

const msOf = (at: Timestamp | undefined): number | undefined => (at === undefined ? undefined : timestampMs(at));

function requireIntegration({
  integration,
  connectionId,
}: {
  readonly integration: string;
  readonly connectionId: string;
}) {
  if (connectionId === "" || integration !== "") return;
  const message = "must be given with connection_id, which names a connection of one integration";
  throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
}

const receivedOf = (headers: readonly Header[], body: Uint8Array) => ({
  headers: headers.map(({ name, value }) => [name.toLowerCase(), Buffer.from(value).toString("latin1")] as const),
  query: "",
  body,
});
