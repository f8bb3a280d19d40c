import { create } from "@bufbuild/protobuf";
import { sequentialId } from "../../base/ids.ts";
import { bytesFor } from "../../base/message-bytes.ts";
import type { World } from "../../base/world.ts";
import { passedHeaders, payloadFormOf } from "../../core/notifications/payload.ts";
import type { NotificationReading } from "../../core/notifications/reading.ts";
import { type NotificationValues, notificationValues } from "../../core/notifications/values.ts";
import {
  ChannelHeardSchema,
  type StoredForward,
  type StoredNotification,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State, type Notification, type Notification_Proof } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Change } from "../../store/contract.ts";
import { channelHeardKey } from "../channels/channel-collections.ts";
import type { ChannelTokens } from "../channels/tokens.ts";
import type { ForwardBodies } from "../deliveries/forward-bodies.ts";
import type { NewForwards } from "../deliveries/new-forwards.ts";
import type { Outbox } from "../deliveries/outbox/outbox.ts";
import { timestampNow } from "../stored/timestamp-now.ts";
import type { NotifiedSyncs } from "../syncs/notified-syncs.ts";
import type { NotificationFiling } from "./notification-filing.ts";
import type { MatchNotification } from "./notification-matching.ts";
import type { OutboxAdmission } from "./outbox-admission.ts";
import type { WebhookReceiver } from "./webhook-receivers.ts";

/** Takes in a proven notification: matches it, and stores it with its forwards. */
export interface NotificationIntake {
  /** Returns undefined if the message has come before. Throws `overloaded` if the outbox is too full. */
  take(
    receiver: WebhookReceiver,
    reading: NotificationReading,
    proof: Notification_Proof,
  ): Promise<Notification | undefined>;
}

interface NotificationIntakeOptions {
  readonly match: MatchNotification;
  readonly filing: NotificationFiling;
  readonly admission: OutboxAdmission;
  readonly tokens: Pick<ChannelTokens, "connectionOf">;
  readonly forwards: NewForwards;
  readonly bodies: ForwardBodies;
  readonly outbox: Pick<Outbox, "isSoon">;
  readonly notified: NotifiedSyncs;
  readonly world: World;
}

/** Limits the kinds of event that are stored with a notification. */
const mostKinds = 10;

const bytesOfHeard = bytesFor(ChannelHeardSchema);

export function createNotificationIntake(options: NotificationIntakeOptions): NotificationIntake {
  const { match, filing, admission, tokens, forwards, bodies, outbox, notified, world } = options;
  const { metrics } = world;

  function forwardsOf(notification: Notification, { channel, number }: NotificationValues): readonly StoredForward[] {
    const { id, environment, integration, messageId, matches } = notification;
    const cause = {
      environment,
      integration,
      notificationId: id,
      orderKey: channel ?? "",
      number: number ?? "",
      type: "forward",
      message: messageId === "" ? id : messageId,
      body: new Uint8Array(),
    };
    // A notification that matches no connection is forwarded anyway: the application may know its meaning.
    if (matches.length === 0) return forwards.create(cause, "");
    return matches.length === 1
      ? forwards.create(cause, matches[0]?.id ?? "")
      : matches.flatMap((ref) => forwards.create(cause, ref.id));
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

  return {
    async take(receiver, reading, proof) {
      const { provider, integration } = receiver;
      const values = notificationValues(provider.notification, reading);
      const matching = match(receiver, values);
      const { rule, matches } = matching instanceof Promise ? await matching : matching;
      const nowMs = world.now();
      // Built as a literal, like all objects made for each notification: `create` takes 2 µs to return the same object.
      const notification: Notification = {
        $typeName: "latchkey.v1.Notification",
        id: sequentialId(nowMs),
        environment: integration.environment,
        integration: integration.key,
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
        receivedAt: timestampNow(nowMs),
        revision: 0n,
        kinds: values.kinds.length > mostKinds ? values.kinds.slice(0, mostKinds) : [...values.kinds],
        proof,
        proofScheme: provider.notification?.signature?.scheme ?? "",
        matchedField: provider.notification?.lookups[rule]?.field ?? "",
        channelId: values.channel ?? "",
        assignedBy: "",
      };
      const stored: StoredNotification = {
        $typeName: "latchkey.stored.v1.StoredNotification",
        notification,
        payloadForm: payloadFormOf(provider.notification, reading),
        environmentId: receiver.environment.id,
      };
      const created = integration.noForward ? [] : forwardsOf(notification, values);
      const waiting = created.filter(({ state }) => state === Forward_State.PENDING);
      admission.reserve(waiting);
      let isFiled = false;
      try {
        if (waiting.some((forward) => outbox.isSoon(forward))) bodies.cache(stored, waiting.length);
        const alongside = [...heardOf(notification, values), ...notified(notification, values.kinds)];
        isFiled = await filing.file({ stored, forwards: created, alongside, nowMs });
      } finally {
        admission.release(waiting);
        if (!isFiled) bodies.drop(stored);
      }
      if (!isFiled) return undefined;
      metrics.notificationsMatched.series({ rule: rule < 0 ? "none" : String(rule) }).add();
      return notification;
    },
  };
}
