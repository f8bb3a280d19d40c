import { millisecondsIn } from "./duration.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";

/** What may be changed of the forwarding of webhooks while it runs. */
export interface WebhookConfig {
  /** The most forwards that may wait: beyond it a provider is told to come again. */
  readonly maxWaiting: number;
  /** Deliveries under way to one destination. */
  readonly perDestination: number;
  /** Of one attempt, to the end of its answer. */
  readonly timeoutMs: number;
}

export const defaultWebhooks: WebhookConfig = { maxWaiting: 200_000, perDestination: 32, timeoutMs: 15_000 };

const minTimeoutMs = 100;
const maxTimeoutMs = 300_000;

export function webhooksOf({ file: { webhooks = {} }, refuse }: { file: ConfigFile; refuse: Refuse }): WebhookConfig {
  const timeoutMs = millisecondsIn(webhooks.timeout ?? "") ?? defaultWebhooks.timeoutMs;
  if (timeoutMs < minTimeoutMs || timeoutMs > maxTimeoutMs) refuse("webhooks.timeout: must be from 100ms to 5m");
  return {
    maxWaiting: webhooks.outbox ?? defaultWebhooks.maxWaiting,
    perDestination: webhooks.per_destination ?? defaultWebhooks.perDestination,
    timeoutMs,
  };
}
