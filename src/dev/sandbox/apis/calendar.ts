import { randomBytes } from "node:crypto";
import type { AccessCheck, SandboxCaller } from "../auth/access.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { pageOf } from "./paging.ts";

/** One calendar of one user. */
export interface Calendar {
  readonly id: string;
  readonly summary: string;
  readonly owner: Person;
  readonly events: Map<string, CalendarEvent>;
  /** Counts its changes; what changed after it is what a sync token asks for. */
  revision: number;
}

interface CalendarEvent {
  readonly id: string;
  readonly revision: number;
  readonly status: "confirmed" | "cancelled";
  readonly created: string;
  readonly updated: string;
  /** What the client said of it: `summary`, `start`, `end` and the like. */
  readonly said: Readonly<Record<string, unknown>>;
}

/** Each user's calendars. The primary one has the user's address for its id. */
export interface Calendars {
  readonly routes: readonly SandboxRoute[];
  /** The calendar that a path names, if the caller may see it. Throws 404. */
  required(caller: Pick<SandboxCaller, "person">, id: string): Calendar;
  /** Puts an event into somebody's primary calendar. */
  add(person: Person, said: Readonly<Record<string, unknown>>): void;
  reset(): void;
}

interface CalendarsOptions {
  readonly now: () => number;
  readonly access: AccessCheck;
  /** Called after each change. */
  readonly onChange: (calendar: Calendar) => void;
}

export const toReadCalendars = ["calendar", "calendar.readonly", "calendar.events", "calendar.events.readonly"];
const toWrite = ["calendar", "calendar.events"];
const mostEvents = 5_000;

export function createCalendars({ now, access, onChange }: CalendarsOptions): Calendars {
  const calendars = new Map<string, Calendar>();
  const keyOf = (owner: Person, id: string) => `${owner.id}\0${id}`;

  function furnish(owner: Person): void {
    if (calendars.has(keyOf(owner, owner.email))) return;
    for (const [id, summary] of [
      [owner.email, owner.name],
      [`team-${owner.id.slice(-1)}@group.calendar.example`, "Team"],
    ] as const) {
      const calendar: Calendar = { id, summary, owner, events: new Map(), revision: 0 };
      calendars.set(keyOf(owner, id), calendar);
      for (let day = 1; day <= 5; day += 1) {
        const start = new Date(Date.UTC(2026, 0, day, 9)).toISOString();
        const end = new Date(Date.UTC(2026, 0, day, 10)).toISOString();
        const said = { summary: `Meeting ${day}`, start: { dateTime: start }, end: { dateTime: end } };
        put(calendar, { id: `event${day}`, status: "confirmed", created: start, updated: start, said });
      }
    }
  }

  function put(calendar: Calendar, event: Omit<CalendarEvent, "revision">): CalendarEvent {
    calendar.revision += 1;
    const stored = { ...event, revision: calendar.revision };
    calendar.events.delete(event.id);
    calendar.events.set(event.id, stored);
    return stored;
  }

  function required({ person }: Pick<SandboxCaller, "person">, id: string): Calendar {
    furnish(person);
    const found = calendars.get(keyOf(person, id === "primary" ? person.email : id));
    if (found === undefined) throw refuse(404, "notFound", "Not Found");
    return found;
  }

  const calendarOf = (call: Call, scopes: readonly string[]) =>
    required(access.require(call, scopes), call.params["calendar"] ?? "");

  function eventOf(calendar: Calendar, { params }: Call): CalendarEvent {
    const event = calendar.events.get(params["event"] ?? "");
    if (event === undefined) throw refuse(404, "notFound", "Not Found");
    if (event.status === "cancelled") throw refuse(410, "deleted", "Resource has been deleted");
    return event;
  }

  function change(calendar: Calendar, event: Omit<CalendarEvent, "revision" | "updated">): SandboxAnswer {
    const stored = put(calendar, { ...event, updated: new Date(now()).toISOString() });
    onChange(calendar);
    return json(shownEvent(stored));
  }

  function insert(calendar: Calendar, { id, ...said }: Readonly<Record<string, unknown>>): SandboxAnswer {
    if (typeof id === "string" && calendar.events.has(id)) {
      throw refuse(409, "duplicate", "The requested identifier already exists.");
    }
    if (calendar.events.size >= mostEvents) throw refuse(403, "quotaExceeded", "Calendar usage limits exceeded.");
    const given = typeof id === "string" && /^[a-v0-9]{5,1024}$/.test(id) ? id : randomBytes(13).toString("hex");
    return change(calendar, { id: given, status: "confirmed", created: new Date(now()).toISOString(), said });
  }

  function list(call: Call): SandboxAnswer {
    const calendar = calendarOf(call, toReadCalendars);
    const { query } = call;
    const since = query.has("syncToken") ? revisionIn(query.get("syncToken") ?? "", calendar) : undefined;
    const isShown = ({ revision, status }: CalendarEvent) =>
      since === undefined ? status === "confirmed" || query.get("showDeleted") === "true" : revision > since;
    const events = [...calendar.events.values()].filter(isShown);
    const size = { name: "maxResults", most: 2_500, otherwise: 250 };
    const { page, ...next } = pageOf(events, { query, size });
    const nextSyncToken = Buffer.from(`sync:${calendar.revision}`).toString("base64url");
    return json({
      kind: "calendar#events",
      summary: calendar.summary,
      timeZone: "UTC",
      items: page.map(shownEvent),
      // The last page alone tells where to go on.
      ...(next.nextPageToken === undefined ? { nextSyncToken } : next),
    });
  }

  function listCalendars(call: Call): SandboxAnswer {
    const caller = access.require(call, toReadCalendars);
    furnish(caller.person);
    const own = [...calendars.values()].filter(({ owner }) => owner.id === caller.person.id);
    const { page, ...next } = pageOf(own, {
      query: call.query,
      size: { name: "maxResults", most: 250, otherwise: 100 },
    });
    return json({ kind: "calendar#calendarList", items: page.map(shownCalendar), ...next });
  }

  /** Some call the API by its host alone, some with its name before the version. */
  const bases = ["/v3", "/calendar/v3"];
  const routes = bases.flatMap((base): SandboxRoute[] => {
    const events = `${base}/calendars/:calendar/events`;
    return [
      { method: "GET", path: `${base}/users/me/calendarList`, endpoint: "calendar", answer: listCalendars },
      {
        method: "GET",
        path: `${base}/users/me/calendarList/:calendar`,
        endpoint: "calendar",
        answer: (call) => json(shownCalendar(calendarOf(call, toReadCalendars))),
      },
      { method: "GET", path: events, endpoint: "calendar", answer: list },
      {
        method: "POST",
        path: events,
        endpoint: "calendar",
        answer(call) {
          const calendar = calendarOf(call, toWrite);
          return insert(calendar, saidBy(call));
        },
      },
      {
        method: "GET",
        path: `${events}/:event`,
        endpoint: "calendar",
        answer: (call) => json(shownEvent(eventOf(calendarOf(call, toReadCalendars), call))),
      },
      ...["PATCH", "PUT"].map(
        (method): SandboxRoute => ({
          method,
          path: `${events}/:event`,
          endpoint: "calendar",
          answer(call) {
            const calendar = calendarOf(call, toWrite);
            const event = eventOf(calendar, call);
            const { id: _, ...said } = saidBy(call);
            return change(calendar, { ...event, said: method === "PUT" ? said : { ...event.said, ...said } });
          },
        }),
      ),
      {
        method: "DELETE",
        path: `${events}/:event`,
        endpoint: "calendar",
        answer(call) {
          const calendar = calendarOf(call, toWrite);
          change(calendar, { ...eventOf(calendar, call), status: "cancelled" });
          return { status: 204 };
        },
      },
    ];
  });

  return {
    routes,
    required,
    add: (person, said) => void insert(required({ person }, "primary"), said),
    reset: () => calendars.clear(),
  };
}

/** All but what the calendar itself says of an event. */
function saidBy(call: Call): Readonly<Record<string, unknown>> {
  const { kind, status, created, updated, etag, ...said } = objectOf(call);
  return said;
}

const shownEvent = ({ id, status, created, updated, revision, said }: CalendarEvent) => ({
  ...said,
  kind: "calendar#event",
  id,
  etag: `"${revision}"`,
  status,
  created,
  updated,
});

const shownCalendar = ({ id, summary, owner }: Calendar) => ({
  kind: "calendar#calendarListEntry",
  id,
  summary,
  timeZone: "UTC",
  accessRole: "owner",
  ...(id === owner.email ? { primary: true } : {}),
});

/** A sync token of a calendar that was made anew since, or of none, is no longer good: the client begins again. */
function revisionIn(token: string, calendar: Calendar): number {
  const [, revision] = /^sync:(\d{1,15})$/.exec(Buffer.from(token, "base64url").toString("latin1")) ?? [];
  if (revision === undefined || Number(revision) > calendar.revision) {
    throw refuse(410, "fullSyncRequired", "Sync token is no longer valid, a full sync is required.");
  }
  return Number(revision);
}
