import { create, fromBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import { bytesFor } from "../../base/message-bytes.ts";
import type { World } from "../../base/world.ts";
import { challengeAnswer } from "../../core/notifications/challenge.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import { passedHeaders, payloadFormOf } from "../../core/notifications/payload.ts";
import { isTaken, type ProofFailure } from "../../core/notifications/proof.ts";
import { type NotificationReading, readingOf } from "../../core/notifications/reading.ts";
import { type NotificationValues, notificationValues } from "../../core/notifications/values.ts";
import {
  ChannelHeardSchema,
  type NotificationSeen,
  NotificationSeenSchema,
  type StoredForward,
  type StoredNotification,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { Forward_State, type Notification } from "../../gen/latchkey/v1/webhook_pb.ts";
import { type Change, StaleWrite, type Store } from "../../store/contract.ts";
import { channelHeardKey } from "../channels/channel-collections.ts";
import type { ChannelTokens } from "../channels/tokens.ts";
import type { LookupIndex } from "../connections/lookup-index.ts";
import type { ForwardBodies } from "../deliveries/forward-bodies.ts";
import type { Forwards } from "../deliveries/forwards.ts";
import type { Outbox } from "../deliveries/outbox/outbox.ts";
import { destinationKey } from "../deliveries/outbox/queued-forward.ts";
import { seenForMs, seenKey, type WebhookCollections } from "../deliveries/webhook-collections.ts";
import type { WebhookUrls } from "../setup/webhook-urls.ts";
import type { NotifiedSyncs } from "../syncs/notified-syncs.ts";
import type { NotificationProofs } from "./notification-proofs.ts";
import type { WebhookReceiver, WebhookReceivers } from "./webhook-receivers.ts";

/** Receives webhooks of providers: proves, matches and stores each in one commit before acknowledging it. */
export interface Webhooks {
  /**
   * Throws `not_found` for an unknown address, after reading all commits up to the request; undefined if the address is
   * known.
   */
  requireReceiver(environmentId: string, integration: string): Promise<void> | undefined;
  /** Throws the fault that the provider gets. */
  receive(asked: WebhookReceipt): Promise<WebhookAnswer>;
  /** Accepts a notification as if a provider had sent and proven it. */
  accept(receiver: WebhookReceiver, received: ReceivedNotification): Promise<Notification>;
  explain(receiver: WebhookReceiver, received: ReceivedNotification): Promise<ExplainedWebhook>;
  configure(limits: WebhookLimits): void;
}

export interface WebhookReceipt {
  /** The environment id in the URL. */
  readonly environmentId: string;
  readonly integration: string;
  readonly received: ReceivedNotification;
  readonly method: string;
  /** The webhook URL as the provider was given it. */
  readonly url: string;
}

export interface WebhookAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WebhookLimits {
  /**
   * Limit of waiting forwards for one destination; the limit for all is a ninth more. Beyond it, providers must retry.
   */
  readonly maxWaiting: number;
}

/** The connections that a notification would match. */
export interface ExplainedWebhook {
  /** Index of the matching rule; -1 if none matches. */
  readonly rule: number;
  readonly field: string;
  readonly matches: readonly ConnectionRef[];
  /** The fault with which the notification would be rejected. */
  readonly fault: Fault | undefined;
}

interface WebhooksOptions {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly receivers: WebhookReceivers;
  readonly proofs: NotificationProofs;
  readonly resources: LookupIndex;
  readonly tokens: ChannelTokens;
  readonly forwards: Forwards;
  readonly bodies: ForwardBodies;
  readonly notified: NotifiedSyncs;
  readonly outbox: Outbox;
  readonly limits: WebhookLimits;
  readonly urls: WebhookUrls;
  readonly world: World;
}

/** Delay in `Retry-After`, for providers that respect it. */
const retryAfterSeconds = 30;
const bytesOfHeard = bytesFor(ChannelHeardSchema);
const bytesOfSeen = bytesFor(NotificationSeenSchema);
const taken = { status: 200, body: { status: "success" } } as const;

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { store, collections, receivers, proofs, resources, tokens, forwards, bodies, outbox, notified, urls, world } =
    options;
  const { metrics } = world;
  let { limits } = options;
  /** Number of forwards that are being committed and are not in the outbox yet. */
  let coming = 0;

  function matchOf({ integration: { environment, key: integration } }: WebhookReceiver, values: NotificationValues) {
    const found = resources.match({ environment, integration }, values.lookups);
    const { channel } = values;
    if (found.matches.length > 0 || channel === undefined) return found;
    // The first message of a channel arrives before the provider has said which resource its messages will name.
    const id = tokens.connectionOf({ environment, integration, id: channel });
    return id === undefined
      ? found
      : { ...found, matches: [create(ConnectionRefSchema, { environment, integration, id })] };
  }

  async function take(receiver: WebhookReceiver, reading: NotificationReading): Promise<Notification | undefined> {
    const { provider, integration } = receiver;
    const values = notificationValues(provider.notification, reading);
    const { rule, matches } = matchOf(receiver, values);
    const { environment, key } = integration;
    const nowMs = world.now();
    const id = sequentialId(nowMs);
    // Built as a literal, like all objects made for each notification: `create` takes 2 µs to return the same object.
    const notification: Notification = {
      $typeName: "latchkey.v1.Notification",
      id,
      environment,
      integration: key,
      provider: provider.name,
      messageId: values.messageId ?? "",
      headers: passedHeaders(provider.notification, reading).map(({ name, value }) => ({
        $typeName: "latchkey.v1.Header",
        name,
        value: Buffer.from(value),
      })),
      body: reading.received.body,
      matchedRule: rule,
      matches: [...matches],
      receivedAt: timestampFromMs(nowMs),
      revision: 0n,
    };
    const stored: StoredNotification = {
      $typeName: "latchkey.stored.v1.StoredNotification",
      notification,
      payloadForm: payloadFormOf(provider.notification, reading),
      environmentId: receiver.environment.id,
    };
    const made = integration.noForward ? [] : forwardsOf(notification, values);
    const waiting = made.filter(({ state }) => state === Forward_State.PENDING);
    requireRoom(waiting);
    coming += waiting.length;
    let isFiled = false;
    try {
      if (waiting.some((forward) => outbox.isSoon(forward))) bodies.know(stored, waiting.length);
      const heard = [...heardOf(notification, values), ...notified(notification, values.kinds)];
      isFiled = await file({ stored, made, heard, nowMs });
    } finally {
      coming -= waiting.length;
      if (!isFiled) bodies.forget(stored);
    }
    if (!isFiled) return undefined;
    metrics.notificationsMatched.series({ rule: rule < 0 ? "none" : String(rule) }).add();
    return notification;
  }

  function forwardsOf(notification: Notification, { channel, number }: NotificationValues): StoredForward[] {
    const { id, environment, integration, messageId, matches } = notification;
    const cause = {
      ...{ environment, integration, notificationId: id, orderKey: channel ?? "", number: number ?? "" },
      type: "forward",
      message: messageId === "" ? id : messageId,
      body: new Uint8Array(),
    };
    // A notification that matches no connection is forwarded anyway: the application may know its meaning.
    const ids = matches.length === 0 ? [""] : matches.map((ref) => ref.id);
    return ids.flatMap((connectionId) => forwards.newFor(cause, connectionId));
  }

  /**
   * Throws `overloaded` if the outbox is too full. A destination may use the whole limit if no forwards wait for
   * others. Other destinations share a ninth of the limit on top, and the fewer slots are left, the fewer each gets. A
   * dead destination thus does not fill the outbox for the others.
   */
  function requireRoom(wanted: readonly StoredForward[]): void {
    const eachAtMost = 10 * limits.maxWaiting - 9 * (outbox.size + coming + wanted.length);
    // Forwards that are being committed may be for this destination too.
    const sizeAt = (destination: StoredForward) => outbox.sizeAt(destination) + coming;
    const isRoomFor = (some: readonly StoredForward[]) =>
      some[0] === undefined || sizeAt(some[0]) + some.length <= eachAtMost;
    if (wanted.length < 2 ? isRoomFor(wanted) : Map.groupBy(wanted, destinationKey).values().every(isRoomFor)) return;
    metrics.notifications.series({ outcome: "overloaded" }).add();
    throw new Fault("overloaded", "too many notifications wait for the application", { retryAfterSeconds });
  }

  /** Returns the change that records a message of a known channel. */
  function heardOf(
    { environment, integration, receivedAt }: Notification,
    { channel: id, number = "", resourceId = "" }: NotificationValues,
  ): Change[] {
    if (id === undefined || tokens.connectionOf({ environment, integration, id }) === undefined) return [];
    const at = receivedAt === undefined ? {} : { at: receivedAt };
    const heard = create(ChannelHeardSchema, { number, resourceId, ...at });
    return [{ key: channelHeardKey(environment, id), value: bytesOfHeard(heard) }];
  }

  interface Filing {
    readonly stored: StoredNotification;
    readonly made: readonly StoredForward[];
    readonly heard: readonly Change[];
    readonly nowMs: number;
  }

  /** Stores everything in one commit. Returns false if the message has come before. */
  async function file({ stored, made, heard, nowMs }: Filing): Promise<boolean> {
    const { notification } = stored;
    if (notification === undefined) throw new Error("a stored notification holds one");
    const { environment, integration, messageId, id } = notification;
    const changes = [...collections.notifications.added(stored), ...heard];
    if (messageId === "") {
      // These forwards have ids derived from the new notification's id, so none exists. With a message id, earlier ones
      // may exist.
      await store.commit([...changes, ...made.flatMap((forward) => collections.forwards.added(forward))]);
      return true;
    }
    const key = seenKey(environment, integration, messageId);
    const receivedAt = timestampFromMs(nowMs);
    const seen: NotificationSeen = { $typeName: "latchkey.stored.v1.NotificationSeen", notificationId: id, receivedAt };
    const value = bytesOfSeen(seen);
    try {
      await store.commit([{ key, value, expect: 0 }, ...changes, ...forwards.changes(made)]);
      return true;
    } catch (error) {
      if (!(error instanceof StaleWrite)) throw error;
      return fileAgain({ key, value, changes, made, nowMs });
    }
  }

  interface Again {
    readonly key: string;
    readonly value: Uint8Array;
    readonly changes: readonly Change[];
    readonly made: readonly StoredForward[];
    readonly nowMs: number;
  }

  /** Stores a repeated message: after the repeat window its forwards are created again, under the same ids. */
  async function fileAgain({ key, value, changes, made, nowMs }: Again): Promise<boolean> {
    for (;;) {
      const seen = await store.get(key);
      if (seen !== undefined && isWithinWindow(seen.value, nowMs)) return false;
      const before = await collections.forwards.getMany(made.map(({ environment, id }) => [environment, id]));
      const renewed = made.flatMap((after, i) => collections.forwards.change({ before: before[i], after }));
      try {
        await store.commit([{ key, value, expect: seen?.revision ?? 0 }, ...changes, ...renewed]);
        return true;
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  async function readReceiver(environmentId: string, integration: string): Promise<void> {
    await receivers.find(environmentId, integration).catch(async (error: unknown) => {
      const isMiss = error instanceof Fault && error.status === 404;
      const behind = isMiss ? store.caughtUp() : undefined;
      if (behind === undefined) throw error;
      await behind;
      await receivers.find(environmentId, integration);
    });
  }

  return {
    requireReceiver: (environmentId, integration) =>
      receivers.peek(environmentId, integration) === undefined ? readReceiver(environmentId, integration) : undefined,
    async receive({ environmentId, integration, received, method, url }) {
      const addressed =
        receivers.peek(environmentId, integration) ?? (await receivers.find(environmentId, integration));
      const reading = readingOf(received);
      const rules = addressed.provider.notification;
      const challenge = challengeAnswer(rules?.challenge, reading);
      if (challenge !== undefined) {
        metrics.notifications.series({ outcome: "challenge" }).add();
        return challenge;
      }
      // Prove and match with everything committed before the webhook arrived: a change at another replica a moment ago
      // may be its cause.
      const behind = store.caughtUp();
      const receiver =
        behind === undefined ? addressed : await behind.then(() => receivers.find(environmentId, integration));
      const proving = proofs.of(receiver, { reading, method, url });
      const proof = proving instanceof Promise ? await proving : proving;
      if (!proof.proven) {
        const { reason } = proof;
        if (isTaken(proof)) metrics.notificationsUnproven.series({ reason }).add();
        else {
          metrics.notifications.series({ outcome: "refused" }).add();
          metrics.notificationsRefused.inc({ reason });
          throw unproven(reason);
        }
      }
      const notification = await take(receiver, reading);
      metrics.notifications.series({ outcome: notification === undefined ? "repeated" : "taken" }).add();
      return taken;
    },
    async accept(receiver, received) {
      await store.caughtUp();
      const notification = await take(receiver, readingOf(received));
      if (notification === undefined) {
        throw new Fault("already_exists", "a notification with this message id has come within 24 hours");
      }
      metrics.notifications.series({ outcome: "test" }).add();
      return notification;
    },
    async explain(receiver, received) {
      const { notification: rules } = receiver.provider;
      const reading = readingOf(received);
      await store.caughtUp();
      const { rule, matches } = matchOf(receiver, notificationValues(rules, reading));
      // Some providers sign the URL and the method: use those of a real webhook.
      const proof = await proofs.of(receiver, { reading, method: "POST", url: await urls.of(receiver.integration) });
      const fault = proof.proven || isTaken(proof) ? undefined : unproven(proof.reason, `: ${proof.reason}`);
      return { rule, matches, field: rules?.lookups[rule]?.field ?? "", fault };
    },
    configure(wanted) {
      limits = wanted;
    },
  };
}

/** Returns the fault for an unproven webhook. The sender gets no reason; only the operator does. */
const unproven = (reason: ProofFailure, why = ""): Fault =>
  new Fault("unproven_webhook", `the notification does not prove where it comes from${why}`, { metadata: { reason } });

function isWithinWindow(seen: Uint8Array, nowMs: number): boolean {
  const { receivedAt } = fromBinary(NotificationSeenSchema, seen);
  return receivedAt !== undefined && nowMs - timestampMs(receivedAt) < seenForMs;
}
