import { hash } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxTraffic } from "../seen.ts";
import { calendarReadScopes } from "./calendar-routes.ts";
import type { Calendar, CalendarStore } from "./calendar-store.ts";
import type { Channel } from "./channel.ts";
import { createChannelNotifier } from "./channel-notifier.ts";
import { readWatchRequest } from "./watch-request.ts";

/** Notification channels: created, stopped and expired; a change of a calendar notifies the channels that watch it. */
export interface SandboxChannels {
  readonly routes: readonly SandboxRoute[];
  /** Notifies the channels that watch this calendar. */
  changed(calendar: Calendar): void;
  live(): readonly Channel[];
  reset(): void;
}

interface SandboxChannelsOptions {
  readonly now: () => number;
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
  readonly access: AccessCheck;
  readonly calendars: CalendarStore;
  readonly seen: SandboxTraffic;
  /** Aborted when the sandbox closes. */
  readonly closing: AbortSignal;
}

export function createChannels(options: SandboxChannelsOptions): SandboxChannels {
  const { now, origin, settings, access, calendars, seen, closing } = options;
  const channels = new Map<string, Channel>();
  /** An id can be used once, even if its channel was stopped. */
  const usedIds = createBounded<true>(100_000);
  const isLive = ({ expiration }: Channel) => expiration > now();
  const isOpen = (channel: Channel) => channels.get(channel.id) === channel;
  const { notify } = createChannelNotifier({ settings, seen, isOpen, closing });

  function watch(call: Call): SandboxAnswer {
    const { person, clientId } = access.require(call, calendarReadScopes);
    const calendar = calendars.get(person, call.params["calendar"] ?? "");
    const { id, address, token, expiration } = readWatchRequest(call, { now: now(), settings: settings() });
    if (usedIds.get(id) === true) throw refuse(400, "channelIdNotUnique", `Channel id ${id} not unique`);
    requireRoom();
    const channel: Channel = {
      id,
      resourceId: hash("sha256", `${calendar.owner.id}:${calendar.id}`, "base64url").slice(0, 27),
      resourceUri: `${origin()}/v3/calendars/${encodeURIComponent(calendar.id)}/events?alt=json`,
      address,
      token,
      expiration,
      clientId,
      calendar,
      messageNumber: 0,
      lastDelivery: Promise.resolve(),
      queuedDeliveries: 0,
    };
    usedIds.set(id, true);
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

  /** Removes expired channels only: the client was told how long a live one lasts. */
  function requireRoom(): void {
    const { maxChannels } = settings();
    if (channels.size < maxChannels) return;
    for (const channel of channels.values()) {
      if (!isLive(channel)) channels.delete(channel.id);
    }
    if (channels.size >= maxChannels) throw refuse(403, "quotaExceeded", `There are ${maxChannels} channels already.`);
  }

  function stop(call: Call): SandboxAnswer {
    const { clientId, person } = access.require(call, calendarReadScopes);
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
    if (found.clientId !== clientId) throw refuse(403, "forbidden", "Another client created this channel.");
    channels.delete(found.id);
    return { status: 204 };
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
      usedIds.clear();
    },
  };
}
