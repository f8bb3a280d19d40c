import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { ScriptHost } from "../../core/scripts/script.ts";
import type { Destination } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { ChannelRoom } from "../channels/open.ts";
import type { Connections } from "../connections/connections.ts";
import { type LookupIndex, type LookupIndexOptions, openLookupIndex } from "../connections/lookup/lookup-index.ts";
import {
  createDeliveries,
  type Deliveries,
  type DeliveriesOptions,
  type DeliveryLimits,
} from "../deliveries/deliver.ts";
import { createDestinationControl, type DestinationControl } from "../deliveries/destination-control.ts";
import { destinationList } from "../deliveries/destination-list.ts";
import { createNotifications, type Notifications } from "../deliveries/notifications.ts";
import type { SharedServices } from "../deliveries/open.ts";
import { openOutbox } from "../deliveries/outbox/outbox.ts";
import type { WebhookCollections } from "../deliveries/webhook-collections.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createNotifiedSyncs } from "../syncs/notified-syncs.ts";
import type { Runs } from "../syncs/runs/runs.ts";
import { createHandshakes } from "./handshakes.ts";
import { type AssignNotification, createNotificationAssignment } from "./notification-assignment.ts";
import { createNotificationFiling } from "./notification-filing.ts";
import { createNotificationIntake } from "./notification-intake.ts";
import { createNotificationMatching } from "./notification-matching.ts";
import { createNotificationProofs } from "./notification-proofs.ts";
import { createOutboxAdmission, type WebhookLimits } from "./outbox-admission.ts";
import { openWebhookReceivers, type WebhookReceivers } from "./webhook-receivers.ts";
import { createWebhooks, type Webhooks } from "./webhooks.ts";

export type { WebhookLimits } from "./outbox-admission.ts";

/** Incoming notifications of providers, and forwards of them to the application. */
export interface WebhookRoom {
  readonly resources: LookupIndex;
  readonly webhookReceivers: WebhookReceivers;
  readonly webhooks: Webhooks;
  readonly notifications: Notifications;
  readonly deliveries: Deliveries;
  readonly destinationsOf: (environment: string) => readonly Destination[];
  readonly destinationControl: DestinationControl;
  readonly assignNotification: AssignNotification;
  configure(limits: WebhookLimits & DeliveryLimits): void;
  close(): void;
}

interface WebhookRoomOptions {
  readonly shared: SharedServices;
  readonly collections: SetupCollections & WebhookCollections;
  readonly lookups: Omit<LookupIndexOptions, "store" | "world">;
  readonly connections: Pick<Connections, "get">;
  readonly channels: Pick<ChannelRoom, "tokens" | "keys" | "signals" | "clientToken">;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly limits: WebhookLimits & DeliveryLimits;
  readonly partitions: DeliveriesOptions["partitions"];
  readonly send: SendSmallRequest;
  /** Sends to the environments' own forward addresses. */
  readonly sendToApplication: SendSmallRequest;
}

export async function openWebhooks(options: WebhookRoomOptions): Promise<WebhookRoom> {
  const { shared, collections, connections, channels, scripts, runs, limits, partitions, send, sendToApplication } =
    options;
  const { store, webhookUrls: urls, integrations, providers, destinations, forwards, bodies, world } = shared;
  const { tokens, keys, signals, clientToken } = channels;
  const handshakes = createHandshakes({ keys });
  const resources = await openLookupIndex({ store, ...options.lookups, world });
  const outbox = await openOutbox({ store, world });
  const receivers = await openWebhookReceivers({ store, destinations, integrations, providers });
  const proofs = createNotificationProofs({ send, tokens, clientToken, world });
  const notified = createNotifiedSyncs({ scripts, runs, destinations, world });
  const match = createNotificationMatching({ resources, tokens });
  const filing = createNotificationFiling({ store, collections, forwards });
  const admission = createOutboxAdmission({ outbox, limits, world });
  const intake = createNotificationIntake({
    match,
    filing,
    admission,
    tokens,
    forwards,
    bodies,
    outbox,
    notified,
    world,
  });
  const deliveries = createDeliveries({
    store,
    collections,
    outbox,
    destinations,
    bodies,
    secrets: shared.signingSecrets,
    send,
    sendToApplication,
    limits,
    partitions,
    world,
  });
  const destinationsOf = (environment: string) =>
    destinationList(environment, { outbox, destinations, health: deliveries.health, world });
  return {
    resources,
    webhookReceivers: receivers,
    webhooks: createWebhooks({
      store,
      receivers,
      proofs,
      send,
      match,
      intake,
      urls,
      signals,
      handshakes,
      world,
    }),
    deliveries,
    notifications: createNotifications({ collections, destinations }),
    destinationsOf,
    destinationControl: createDestinationControl({
      destinations,
      list: destinationsOf,
      secrets: shared.signingSecrets,
      send,
      sendToApplication,
      timeoutMs: deliveries.timeoutMs,
      world,
    }),
    assignNotification: createNotificationAssignment({
      store,
      collections,
      connections,
      destinations,
      forwards,
      admission,
      notified,
      audit: shared.audit,
    }),
    configure(wanted) {
      admission.configure(wanted);
      deliveries.configure(wanted);
    },
    close() {
      outbox.close();
      receivers.close();
      resources.close();
    },
  };
}
