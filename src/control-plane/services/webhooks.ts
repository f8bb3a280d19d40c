import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { anyForward } from "../../broker/deliveries/forward-list.ts";
import type { Header, WebhookService } from "../../gen/latchkey/v1/webhook_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import { maxPageBytes } from "../server/page-bytes.ts";
import { watcherOf } from "../server/watch.ts";

type WebhookMethods = ServiceImpl<typeof WebhookService>;

export const webhookService = (broker: Broker): WebhookMethods => {
  const { environments, notifications, forwards, destinations, webhooks, webhookReceivers, feeds } = broker;

  async function receiverOf(environment: string, integration: string) {
    return webhookReceivers.findIn(await environments.get(environment), integration);
  }

  return {
    async listNotifications(
      { environment: requested, integration, connectionId, unmatched, since, until, ...request },
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
      };
      const { items, next } = await notifications.list(filter, { ...pageOf(request), maxBytes: maxPageBytes });
      return { notifications: [...items], nextPageToken: next };
    },
    async getNotification({ environment: requested, id }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const notification = await notifications.get({ environment, id });
      return { notification, forwards: [...(await forwards.ofNotification(environment, id))] };
    },
    async *watchNotifications({ environment: requested, integration }, context) {
      const environment = await environments.of(callerOf(context), requested);
      for await (const step of feeds.webhooks({ environment, integration, ...watcherOf(context) }))
        yield { event: step };
    },
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
    async replayForwards({ environment: requested, ids, filter }, context) {
      if ((ids.length === 0) === (filter === undefined)) {
        throw new Fault("invalid_body", "give either `ids` or `filter`, not both");
      }
      if (filter !== undefined) requireIntegration(filter);
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      const { replayed, refused } = await forwards.replay({ environment, ids, filter }, caller.keyId);
      const problems = [...refused].map(([id, fault]) => [id, problemOf(fault)] as const);
      return { replayed: BigInt(replayed), refused: Object.fromEntries(problems) };
    },
    async listDestinations({ environment: requested }, context) {
      const environment = await environments.of(callerOf(context), requested);
      return { destinations: [...broker.destinationsOf(environment)] };
    },
    async resumeDestination({ environment: requested, url }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      await destinations.resume({ environment, url }, caller.keyId);
      return { destination: broker.destinationsOf(environment).find((one) => one.url === url) };
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
