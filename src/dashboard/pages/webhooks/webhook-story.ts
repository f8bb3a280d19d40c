import type { Attempt, Forward, Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { webhooks } from "../../state/clients.ts";

/** A webhook with all that came of it. */
export interface WebhookStory {
  readonly notification: Notification;
  readonly deliveries: readonly Forward[];
  readonly attempts: ReadonlyMap<string, readonly Attempt[]>;
}

/** The attempts of this many deliveries are shown at once. */
const mostOpened = 5;
/** Reads a webhook, its deliveries, and the attempts of the first of them. */
export async function readStory(environment: string, id: string, signal: AbortSignal): Promise<WebhookStory> {
  const { notification, forwards } = await webhooks.getNotification({ environment, id }, { signal });
  if (notification === undefined) throw new Error("The webhook is empty.");
  const opened = await Promise.all(
    forwards.slice(0, mostOpened).map((one) => webhooks.getForward({ environment, id: one.id }, { signal })),
  );
  const attempts = new Map(opened.map(({ forward, attempts }) => [forward?.id ?? "", attempts]));
  return { notification, deliveries: forwards, attempts };
}
