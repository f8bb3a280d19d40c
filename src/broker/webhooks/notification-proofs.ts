import type { World } from "../../base/world.ts";
import { proofOf, webhookSecret } from "../../core/notifications/proof.ts";
import type { NotificationReading } from "../../core/notifications/reading.ts";
import type { Proof } from "../../core/notifications/schemes/scheme.ts";
import { valuesOf } from "../../core/notifications/values.ts";
import type { ChannelOfIntegration, ChannelTokens } from "../channels/tokens.ts";
import type { SignerKeys } from "./signer-keys.ts";
import type { WebhookReceiver } from "./webhook-receivers.ts";

/** Checks that notifications come from their claimed sender, from data in memory. */
export interface NotificationProofs {
  check(receiver: WebhookReceiver, proven: ProofSubject): Proof | Promise<Proof>;
}

interface ProofSubject {
  readonly reading: NotificationReading;
  readonly method: string;
  /** The webhook URL as the provider was given it. */
  readonly url: string;
}

interface ProofsOptions {
  readonly keys: SignerKeys;
  readonly tokens: ChannelTokens;
  readonly world: World;
}

export const createNotificationProofs = ({ keys, tokens, world }: ProofsOptions): NotificationProofs => ({
  check({ provider, integration, secrets }, { reading, method, url }) {
    const rules = provider.notification?.signature;
    const { webhookSecret: own = "", clientSecret = "" } = secrets ?? {};
    const secret = webhookSecret(rules, { webhookSecret: own, clientSecret });
    const request = { rules, reading, method, url, secret, keys, nowMs: world.now() };
    const channel = rules?.scheme === "channel_token" ? channelIn({ provider, integration }, reading) : undefined;
    if (channel === undefined) return proofOf(request);
    return proofOf({ ...request, expected: tokens.expectedOf(channel) });
  },
});

/** Returns the channel that a notification claims to come from. */
function channelIn(
  { provider, integration }: Pick<WebhookReceiver, "provider" | "integration">,
  reading: NotificationReading,
): ChannelOfIntegration | undefined {
  const { notification } = provider;
  const rule = notification?.values[notification.channel];
  const id = rule === undefined ? undefined : valuesOf(rule, reading)[0];
  return id === undefined ? undefined : { environment: integration.environment, integration: integration.key, id };
}
