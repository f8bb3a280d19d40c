import { hash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { AccessCheck } from "../auth/access.ts";
import { isLoopback } from "../auth/clients.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxTraffic } from "../seen.ts";
import { type Calendar, type Calendars, toReadCalendars } from "./calendar.ts";

/** A subscription to the changes of one calendar. */
export interface Channel {
  readonly id: string;
  readonly resourceId: string;
  readonly resourceUri: string;
  readonly address: string;
  readonly token: string | undefined;
  /** Milliseconds since 1970. */
  readonly expiration: number;
  /** Who watches, and for whom. */
  readonly clientId: string;
  readonly calendar: Calendar;
  /** Of the last notification. */
  messageNumber: number;
  /** Notifications leave one after the other. */
  sending: Promise<void>;
  waiting: number;
}

/** Notification channels: made, stopped, run out; what changes is said to their addresses, without saying what. */
export interface SandboxChannels {
  readonly routes: readonly SandboxRoute[];
  /** Notifies those that watch this calendar. */
  changed(calendar: Calendar): void;
  live(): readonly Channel[];
  reset(): void;
}

interface SandboxChannelsOptions {
  readonly now: () => number;
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
  readonly access: AccessCheck;
  readonly calendars: Calendars;
  readonly seen: SandboxTraffic;
  /** Aborted when the sandbox closes. */
  readonly closing: AbortSignal;
}

const longestId = 64;
const mostWaiting = 1_000;
const answerMs = 10_000;

export function createChannels(options: SandboxChannelsOptions): SandboxChannels {
  const { now, origin, settings, access, calendars, seen, closing } = options;
  const channels = new Map<string, Channel>();
  /** An id is never good a second time, not even once its channel was stopped. */
  const used = createBounded<true>(100_000);
  const isLive = ({ expiration }: Channel) => expiration > now();

  function watch(call: Call): SandboxAnswer {
    const caller = access.require(call, toReadCalendars);
    const calendar = calendars.required(caller, call.params["calendar"] ?? "");
    const asked = objectOf(call);
    const { id, address, token } = asked;
    if (typeof id !== "string" || !/^[A-Za-z0-9\-_+/=]+$/.test(id) || id.length > longestId) {
      throw refuse(
        400,
        "channelIdInvalid",
        `Channel ids are 1 to ${longestId} of the characters A-Z a-z 0-9 - _ + / =`,
      );
    }
    if (asked["type"] !== "web_hook" && asked["type"] !== "webhook") {
      throw refuse(400, "unknownChannelType", "The type must be web_hook.");
    }
    if (typeof address !== "string" || !isReachable(address)) {
      throw refuse(400, "push.webhookUrlNotHttps", "WebHook callback must be HTTPS");
    }
    if (token !== undefined && (typeof token !== "string" || !/^[\x20-\x7e]{0,256}$/.test(token))) {
      throw refuse(400, "invalid", "Invalid value for token.");
    }
    const expiration = expirationOf(asked["expiration"]);
    if (used.get(id) === true) throw refuse(400, "channelIdNotUnique", `Channel id ${id} not unique`);
    requireRoom();
    const encoded = encodeURIComponent(calendar.id);
    const channel: Channel = {
      id,
      resourceId: hash("sha256", `${calendar.owner.id}:${calendar.id}`, "base64url").slice(0, 27),
      resourceUri: `${origin()}/v3/calendars/${encoded}/events?alt=json`,
      address,
      token,
      expiration,
      clientId: caller.clientId,
      calendar,
      messageNumber: 0,
      sending: Promise.resolve(),
      waiting: 0,
    };
    used.set(id, true);
    channels.set(id, channel);
    notify(channel, "sync");
    return json({
      kind: "api#channel",
      id,
      resourceId: channel.resourceId,
      resourceUri: channel.resourceUri,
      expiration: String(expiration),
      ...(token === undefined ? {} : { token }),
    });
  }

  /** One that lives is never forgotten: whoever has it was told until when it does. */
  function requireRoom(): void {
    const { maxChannels } = settings();
    if (channels.size < maxChannels) return;
    for (const one of channels.values()) {
      if (!isLive(one)) channels.delete(one.id);
    }
    if (channels.size >= maxChannels) throw refuse(403, "quotaExceeded", `There are ${maxChannels} channels already.`);
  }

  function expirationOf(asked: unknown): number {
    const { channelLifetimeS, maxChannelLifetimeS } = settings();
    if (asked === undefined || asked === null) return now() + channelLifetimeS * 1_000;
    // As a number or as text: JSON's numbers do not hold every integer of 64 bits.
    const value =
      typeof asked === "number" || (typeof asked === "string" && /^\d{1,19}$/.test(asked)) ? Number(asked) : Number.NaN;
    if (!Number.isSafeInteger(value) || value <= now()) {
      throw refuse(400, "channelExpirationInvalid", "expiration must be milliseconds since 1970, and in the future.");
    }
    return Math.min(value, now() + maxChannelLifetimeS * 1_000);
  }

  function stop(call: Call): SandboxAnswer {
    const { clientId, person } = access.require(call, toReadCalendars);
    const { id, resourceId } = objectOf(call);
    const found = typeof id === "string" ? channels.get(id) : undefined;
    if (
      found === undefined ||
      found.resourceId !== resourceId ||
      !isLive(found) ||
      found.calendar.owner.id !== person.id
    ) {
      throw refuse(404, "notFound", `Channel '${String(id)}' not found for project`);
    }
    if (found.clientId !== clientId) throw refuse(403, "forbidden", "This channel was made by another client.");
    channels.delete(found.id);
    return { status: 204 };
  }

  function notify(channel: Channel, state: "sync" | "exists"): void {
    if (channel.waiting >= mostWaiting) {
      seen.count("notificationsFailed");
      return;
    }
    const { notifications, notificationCopies, messageNumberStep } = settings();
    // The first number is 1, however far the next is from it.
    channel.messageNumber += channel.messageNumber === 0 ? 1 : messageNumberStep;
    if (notifications === "dropped") {
      seen.count("notificationsDropped");
      return;
    }
    const headers = headersOf(channel, state);
    for (let copy = 1; copy <= notificationCopies; copy += 1) {
      channel.waiting += 1;
      channel.sending = channel.sending.then(() => deliver(channel, headers));
    }
  }

  /** Tries again when the receiver says that it could not, and gives up when it says no. */
  async function deliver(channel: Channel, headers: Readonly<Record<string, string>>): Promise<void> {
    const { notificationAttempts, notificationRetryMs } = settings();
    let status = 0;
    for (let attempt = 1; attempt <= notificationAttempts && !closing.aborted; attempt += 1) {
      if (channels.get(channel.id) !== channel) break;
      status = await post(channel.address, headers);
      if (status < 500 && status !== 0) break;
      if (attempt < notificationAttempts)
        await pause(notificationRetryMs * 2 ** (attempt - 1), undefined, { signal: closing }).catch(() => {});
    }
    channel.waiting -= 1;
    seen.count(status >= 200 && status < 300 ? "notificationsDelivered" : "notificationsFailed");
  }

  async function post(address: string, headers: Readonly<Record<string, string>>): Promise<number> {
    try {
      const signal = AbortSignal.any([closing, AbortSignal.timeout(answerMs)]);
      const response = await fetch(address, { method: "POST", headers, redirect: "manual", signal });
      await response.body?.cancel();
      return response.status;
    } catch {
      /* Nobody there, or no answer: as good as a status that says so. */
      return 0;
    }
  }

  return {
    routes: ["/v3", "/calendar/v3"].flatMap((base): SandboxRoute[] => [
      { method: "POST", path: `${base}/calendars/:calendar/events/watch`, endpoint: "watch", answer: watch },
      { method: "POST", path: `${base}/channels/stop`, endpoint: "stop", answer: stop },
    ]),
    changed(calendar) {
      for (const channel of channels.values()) {
        if (channel.calendar === calendar && isLive(channel)) notify(channel, "exists");
      }
    },
    live: () => [...channels.values()].filter(isLive),
    reset() {
      channels.clear();
      used.clear();
    },
  };
}

/** HTTPS, as the provider wants it; on this machine also without. */
function isReachable(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const url = new URL(address);
  return url.protocol === "https:" || isLoopback(url);
}

function headersOf(channel: Channel, state: "sync" | "exists"): Readonly<Record<string, string>> {
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
