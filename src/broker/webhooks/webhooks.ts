import { Fault } from "../../base/fault.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { type Challenge, challengeIn, usesSecrets } from "../../core/notifications/challenge.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import { isAccepted } from "../../core/notifications/proof.ts";
import { readingOf } from "../../core/notifications/reading.ts";
import type { ProofFailure } from "../../core/notifications/schemes/scheme.ts";
import { notificationValues } from "../../core/notifications/values.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { NotificationAnswer } from "../../gen/latchkey/v1/provider_pb.ts";
import { type Notification, Notification_Proof } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { ChannelSignals } from "../channels/channel-signals.ts";
import type { WebhookUrls } from "../setup/webhook-urls.ts";
import { createChallengeAnswers } from "./challenge-answers.ts";
import type { Handshakes } from "./handshakes.ts";
import type { NotificationIntake } from "./notification-intake.ts";
import type { MatchNotification } from "./notification-matching.ts";
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
  receive(receipt: WebhookReceipt): Promise<WebhookAnswer>;
  /** Accepts a notification as if a provider had sent and proven it. */
  accept(receiver: WebhookReceiver, received: ReceivedNotification): Promise<Notification>;
  explain(receiver: WebhookReceiver, received: ReceivedNotification): Promise<ExplainedWebhook>;
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
  readonly receivers: WebhookReceivers;
  readonly proofs: NotificationProofs;
  readonly send: SendSmallRequest;
  readonly match: MatchNotification;
  readonly intake: NotificationIntake;
  readonly urls: WebhookUrls;
  readonly signals: ChannelSignals;
  readonly handshakes: Handshakes;
  readonly world: World;
}

const taken: WebhookAnswer = { status: 200, body: { status: "success" } };
const answers = new WeakMap<NotificationAnswer, WebhookAnswer>();

/** Returns the response to an accepted notification. */
function answerOf(rules: NotificationAnswer | undefined): WebhookAnswer {
  if (rules === undefined) return taken;
  const known = answers.get(rules);
  if (known !== undefined) return known;
  const type = `${rules.contentType || "text/plain"}; charset=utf-8`;
  const headers = { "content-type": type, "x-content-type-options": "nosniff" };
  const made = { status: 200, body: rules.body, headers };
  answers.set(rules, made);
  return made;
}

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { store, receivers, proofs, send, match, intake, urls, signals, handshakes, world } = options;
  const { metrics } = world;
  const challenges = createChallengeAnswers({ proofs, send, world });

  async function readReceiver(environmentId: string, integration: string): Promise<void> {
    await receivers.find(environmentId, integration).catch(async (error: unknown) => {
      const isMiss = error instanceof Fault && error.status === 404;
      const behind = isMiss ? store.caughtUp() : undefined;
      if (behind === undefined) throw error;
      await behind;
      await receivers.find(environmentId, integration);
    });
  }

  /** Returns the receiver with everything committed before now, at any replica. */
  async function currentReceiver({ environmentId, integration }: WebhookReceipt, addressed: WebhookReceiver) {
    const behind = store.caughtUp();
    if (behind === undefined) return addressed;
    await behind;
    return receivers.find(environmentId, integration);
  }

  function refuse(reason: ProofFailure): never {
    metrics.notifications.series({ outcome: "refused" }).add();
    metrics.notificationsRefused.inc({ reason });
    throw unproven(reason);
  }

  async function answerChallenge(receipt: WebhookReceipt, addressed: WebhookReceiver, challenge: Challenge) {
    const { received, method, url } = receipt;
    const receiver = usesSecrets(challenge.rules) ? await currentReceiver(receipt, addressed) : addressed;
    const reading = readingOf(received);
    const answer = await challenges.answer(receiver, challenge, { reading, method, url });
    if ("refused" in answer) return refuse(answer.refused);
    if (!(await signals.challenged(receiver, reading))) throw unaskedChallenge();
    metrics.notifications.series({ outcome: "challenge" }).add();
    return answer;
  }

  return {
    requireReceiver: (environmentId, integration) =>
      receivers.peek(environmentId, integration) === undefined ? readReceiver(environmentId, integration) : undefined,
    async receive(receipt) {
      const { environmentId, integration, received, method, url } = receipt;
      const addressed =
        receivers.peek(environmentId, integration) ?? (await receivers.find(environmentId, integration));
      const reading = readingOf(received);
      const handshake = handshakes.answer(addressed, reading);
      if (handshake !== undefined) return handshake;
      const challenge = challengeIn(addressed.provider.notification?.challenge, reading, method);
      if (challenge !== undefined) return answerChallenge(receipt, addressed, challenge);
      // Some providers look whether the URL exists.
      if (method === "HEAD") return { status: 200, body: undefined };
      if (method !== "POST") throw onlyPost();
      // Prove and match with everything committed before the webhook arrived: a change at another replica a moment ago
      // may be its cause.
      const behind = store.caughtUp();
      const receiver =
        behind === undefined ? addressed : await behind.then(() => receivers.find(environmentId, integration));
      const proving = proofs.check(receiver, { reading, method, url });
      const proof = proving instanceof Promise ? await proving : proving;
      let shown: Notification_Proof = Notification_Proof.VALID;
      if (!proof.proven) {
        const { reason } = proof;
        if (isAccepted(proof)) {
          shown = reason === "no_secret" ? Notification_Proof.NO_SECRET : Notification_Proof.NOT_SIGNED;
          metrics.notificationsUnproven.series({ reason }).add();
        } else refuse(reason);
      }
      if (hasNotices(receiver) && (await signals.notice(receiver, reading))) {
        metrics.notifications.series({ outcome: "notice" }).add();
        return taken;
      }
      const notification = await intake.take(receiver, reading, shown);
      metrics.notifications.series({ outcome: notification === undefined ? "repeated" : "taken" }).add();
      return answerOf(receiver.provider.notification?.answer);
    },
    async accept(receiver, received) {
      await store.caughtUp();
      const notification = await intake.take(receiver, readingOf(received), Notification_Proof.TEST);
      if (notification === undefined) {
        throw new Fault("already_exists", "a notification with this message id was received in the last 24 hours");
      }
      metrics.notifications.series({ outcome: "test" }).add();
      return notification;
    },
    async explain(receiver, received) {
      const { notification: rules } = receiver.provider;
      const reading = readingOf(received);
      await store.caughtUp();
      const { rule, matches } = await match(receiver, notificationValues(rules, reading));
      // Some providers sign the URL and the method: use those of a real webhook.
      const proof = await proofs.check(receiver, { reading, method: "POST", url: await urls.of(receiver.integration) });
      const fault = proof.proven || isAccepted(proof) ? undefined : unproven(proof.reason, `: ${proof.reason}`);
      return { rule, matches, field: rules?.lookups[rule]?.field ?? "", fault };
    },
  };
}

const hasNotices = ({ provider }: WebhookReceiver): boolean => (provider.notification?.lifecycle.length ?? 0) > 0;

const unaskedChallenge = (): Fault =>
  new Fault("not_found", "the challenge confirms no channel that Latchkey asked for");
const onlyPost = (): Fault =>
  new Fault("method_not_allowed", "the method must be POST: this is the address of webhooks", {
    metadata: { allow: "POST, HEAD" },
  });

/** Returns the fault for an unproven webhook. The sender gets no reason; only the operator does. */
const unproven = (reason: ProofFailure, why = ""): Fault =>
  new Fault("unproven_webhook", `the sender of the webhook could not be verified${why}`, { metadata: { reason } });
