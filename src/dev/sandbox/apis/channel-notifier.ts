import { setTimeout as pause } from "node:timers/promises";
import type { BehaviourSettings } from "../behaviour.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { Channel } from "./channel.ts";

/** Sends notifications to the addresses of channels, in order, and retries failed ones. */
export interface ChannelNotifier {
  notify(channel: Channel, state: ResourceState): void;
}

/** `sync` is a channel's first notification, `exists` reports a change without saying what changed. */
type ResourceState = "sync" | "exists";
type NotificationHeaders = Readonly<Record<string, string>>;

interface ChannelNotifierOptions {
  readonly settings: () => BehaviourSettings;
  readonly seen: SandboxTraffic;
  /** False once a channel was stopped: its queued notifications are not sent. */
  readonly isOpen: (channel: Channel) => boolean;
  /** Aborted when the sandbox closes. */
  readonly closing: AbortSignal;
}

const maxQueued = 1_000;
const answerTimeoutMs = 10_000;

export function createChannelNotifier({ settings, seen, isOpen, closing }: ChannelNotifierOptions): ChannelNotifier {
  /** Retries network errors and 5xx; any other answer is final. */
  async function deliver(channel: Channel, headers: NotificationHeaders): Promise<void> {
    const { notificationAttempts, notificationRetryMs } = settings();
    let status = 0;
    for (let attempt = 1; attempt <= notificationAttempts && !closing.aborted; attempt += 1) {
      if (!isOpen(channel)) break;
      status = await post(channel.address, { headers, closing });
      if (status < 500 && status !== 0) break;
      if (attempt < notificationAttempts)
        await pause(notificationRetryMs * 2 ** (attempt - 1), undefined, { signal: closing }).catch(() => {});
    }
    channel.queuedDeliveries -= 1;
    seen.count(status >= 200 && status < 300 ? "notificationsDelivered" : "notificationsFailed");
  }

  return {
    notify(channel, state) {
      if (channel.queuedDeliveries >= maxQueued) {
        seen.count("notificationsFailed");
        return;
      }
      const { notifications, notificationCopies, messageNumberStep } = settings();
      // The first number is 1, whatever the step to the next.
      channel.messageNumber += channel.messageNumber === 0 ? 1 : messageNumberStep;
      if (notifications === "dropped") {
        seen.count("notificationsDropped");
        return;
      }
      const headers = headersOf(channel, state);
      for (let copy = 1; copy <= notificationCopies; copy += 1) {
        channel.queuedDeliveries += 1;
        channel.lastDelivery = channel.lastDelivery.then(() => deliver(channel, headers));
      }
    },
  };
}

/** Returns the status of the answer, or 0 without one. */
async function post(
  address: string,
  { headers, closing }: { readonly headers: NotificationHeaders; readonly closing: AbortSignal },
): Promise<number> {
  try {
    const signal = AbortSignal.any([closing, AbortSignal.timeout(answerTimeoutMs)]);
    const response = await fetch(address, { method: "POST", headers, redirect: "manual", signal });
    await response.body?.cancel();
    return response.status;
  } catch {
    return 0;
  }
}

function headersOf(channel: Channel, state: ResourceState): NotificationHeaders {
  return {
    "x-cal-channel-id": channel.id,
    "x-cal-channel-expiration": new Date(channel.expiration).toUTCString(),
    "x-cal-resource-id": channel.resourceId,
    "x-cal-resource-uri": channel.resourceUri,
    "x-cal-resource-state": state,
    "x-cal-message-number": String(channel.messageNumber),
    ...(channel.token === undefined ? {} : { "x-cal-channel-token": channel.token }),
  };
}
