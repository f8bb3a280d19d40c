import { millisecondsIn } from "../core/duration.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";

/** Settings of webhook forwarding that can change without a restart. */
export interface WebhookConfig {
  /** Maximum number of pending forwards. Above it, webhooks are refused, so that the provider retries. */
  readonly maxWaiting: number;
  /** Maximum number of concurrent deliveries to one destination, of all replicas; undefined: it follows their number. */
  readonly perDestination: number | undefined;
  /** Time limit of one attempt, including the response. */
  readonly timeoutMs: number;
}

export const defaultWebhooks: WebhookConfig = { maxWaiting: 200_000, perDestination: undefined, timeoutMs: 15_000 };

const minTimeoutMs = 100;
const maxTimeoutMs = 300_000;

export function webhooksOf({ file: { webhooks = {} }, refuse }: { file: ConfigFile; refuse: Refuse }): WebhookConfig {
  const timeoutMs = millisecondsIn(webhooks.timeout ?? "") ?? defaultWebhooks.timeoutMs;
  if (timeoutMs < minTimeoutMs || timeoutMs > maxTimeoutMs) refuse("webhooks.timeout: must be from 100ms to 5m");
  return {
    maxWaiting: webhooks.outbox ?? defaultWebhooks.maxWaiting,
    perDestination: webhooks.per_destination,
    timeoutMs,
  };
}
