import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { integrationValue } from "../../core/integration-values.ts";
import { firstProof, proofOf, waysOf, webhookSecret } from "../../core/notifications/proof.ts";
import type { NotificationReading } from "../../core/notifications/reading.ts";
import { type Proof, unproven } from "../../core/notifications/schemes/scheme.ts";
import { valuesOf } from "../../core/notifications/value-rule.ts";
import type { SignatureRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { ChannelOfIntegration, ChannelTokens } from "../channels/tokens.ts";
import { type ClientToken, createSenderKeys } from "./sender-keys.ts";
import { createSignerKeys } from "./signer-keys.ts";
import type { WebhookReceiver } from "./webhook-receivers.ts";

/** Checks that notifications come from their claimed sender, from data in memory. */
export interface NotificationProofs {
  check(receiver: WebhookReceiver, proven: ProofSubject): Proof | Promise<Proof>;
}

export interface ProofSubject {
  readonly reading: NotificationReading;
  readonly method: string;
  /** The webhook URL as the provider was given it. */
  readonly url: string;
}

interface ProofsOptions {
  readonly send: SendSmallRequest;
  readonly tokens: ChannelTokens;
  /** Returns a token of an integration's OAuth app. */
  readonly clientToken: ClientToken;
  readonly world: World;
}

export function createNotificationProofs({ send, tokens, clientToken, world }: ProofsOptions): NotificationProofs {
  const keys = createSignerKeys({ send, world });
  const senderKeys = createSenderKeys({ send, clientToken, world });

  /** Returns the key of the channel that a notification claims to come from; undefined: it has none of its own. */
  function keyIn(receiver: WebhookReceiver, reading: NotificationReading): string | undefined {
    const channel = channelIn(receiver, reading);
    return channel === undefined ? undefined : tokens.keyOf(channel);
  }

  return {
    check(receiver, { reading, method, url }) {
      const { provider, integration, secrets } = receiver;
      const { webhookSecret: own = "", clientSecret = "" } = secrets ?? {};
      const settings = (name: string) => integrationValue(name, { integration, secrets });
      const ofIntegration = { environment: integration.environment, integration: integration.key };
      const prove = (rules: SignatureRules | undefined) => {
        const key = rules?.keyOwner === "channel" ? keyIn(receiver, reading) : undefined;
        // The channel has a key that is not known yet.
        if (key === "") return unproven("wrong_token");
        const secret = key ?? webhookSecret(rules, { webhookSecret: own, clientSecret });
        // Otherwise the sender could leave out the channel, and with it the proof.
        if (secret === "" && rules?.keyOwner === "channel" && tokens.hasKeys(ofIntegration)) {
          return unproven("unknown_key");
        }
        const refusesChallenges = provider.notification?.challenge?.proof?.kind === "hmac";
        const nowMs = world.now();
        const base = { rules, reading, method, url, secret, keys, settings, refusesChallenges, nowMs };
        const request =
          rules?.keyRequest === undefined
            ? base
            : {
                ...base,
                senderKey: senderKeys.of(ofIntegration),
              };
        const channel = rules?.scheme === "channel_token" ? channelIn(receiver, reading) : undefined;
        if (channel === undefined) return proofOf(request);
        return proofOf({ ...request, expected: tokens.expectedOf(channel) });
      };
      const { notification } = provider;
      const ways = notification === undefined ? [] : waysOf(notification);
      return ways.length < 2 ? prove(ways[0]) : firstProof(lazily(ways, prove));
    },
  };
}

/** Proves each way only if the ones before did not. */
function* lazily<T, P>(ways: readonly T[], prove: (way: T) => P): Generator<P> {
  for (const way of ways) yield prove(way);
}

/** Returns the channel that a notification claims to come from. */
export function channelIn(
  { provider, integration }: Pick<WebhookReceiver, "provider" | "integration">,
  reading: NotificationReading,
): ChannelOfIntegration | undefined {
  const { notification } = provider;
  const rule = notification?.values[notification.channel];
  const id = rule === undefined ? undefined : valuesOf(rule, reading)[0];
  return id === undefined ? undefined : { environment: integration.environment, integration: integration.key, id };
}
