import type { AccessCheck } from "../auth/access.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { SandboxRoute } from "../router.ts";
import type { Calendar, CalendarEvent, CalendarStore, EventFields } from "./calendar-store.ts";
import { pageOf } from "./paging.ts";

interface CalendarRoutesOptions {
  readonly access: AccessCheck;
  readonly calendars: CalendarStore;
}

export const calendarReadScopes = ["calendar", "calendar.readonly", "calendar.events", "calendar.events.readonly"];
const writeScopes = ["calendar", "calendar.events"];
/** Some clients call the API by its host alone, and some put its name before the version. */
const bases = ["/v3", "/calendar/v3"];

/** The calendar API: calendars are listed, and their events listed, read, created, changed and deleted. */
export function calendarRoutes({ access, calendars }: CalendarRoutesOptions): readonly SandboxRoute[] {
  const calendarOf = (call: Call, scopes: readonly string[]) =>
    calendars.get(access.require(call, scopes).person, call.params["calendar"] ?? "");
  const eventOf = (calendar: Calendar, { params }: Call) => calendars.event(calendar, params["event"] ?? "");

  function listCalendars(call: Call): SandboxAnswer {
    const { person } = access.require(call, calendarReadScopes);
    const size = { name: "maxResults", most: 250, otherwise: 100 };
    const { page, ...next } = pageOf(calendars.ownedBy(person), { query: call.query, size });
    return json({ kind: "calendar#calendarList", items: page.map(shownCalendar), ...next });
  }

  function createEvent(call: Call): SandboxAnswer {
    const calendar = calendarOf(call, writeScopes);
    return json(shownEvent(calendars.insert(calendar, fieldsOf(call))));
  }

  function changeEvent(call: Call): SandboxAnswer {
    const calendar = calendarOf(call, writeScopes);
    const event = eventOf(calendar, call);
    const { id: _, ...sent } = fieldsOf(call);
    const fields = call.method === "PUT" ? sent : { ...event.fields, ...sent };
    return json(shownEvent(calendars.update(calendar, { ...event, fields })));
  }

  function deleteEvent(call: Call): SandboxAnswer {
    const calendar = calendarOf(call, writeScopes);
    calendars.update(calendar, { ...eventOf(calendar, call), status: "cancelled" });
    return { status: 204 };
  }

  return bases.flatMap((base): SandboxRoute[] => {
    const list = `${base}/users/me/calendarList`;
    const events = `${base}/calendars/:calendar/events`;
    return [
      { method: "GET", path: list, endpoint: "calendar", answer: listCalendars },
      {
        method: "GET",
        path: `${list}/:calendar`,
        endpoint: "calendar",
        answer: (call) => json(shownCalendar(calendarOf(call, calendarReadScopes))),
      },
      {
        method: "GET",
        path: events,
        endpoint: "calendar",
        answer: (call) => listEvents(calendarOf(call, calendarReadScopes), call),
      },
      { method: "POST", path: events, endpoint: "calendar", answer: createEvent },
      {
        method: "GET",
        path: `${events}/:event`,
        endpoint: "calendar",
        answer: (call) => json(shownEvent(eventOf(calendarOf(call, calendarReadScopes), call))),
      },
      { method: "PATCH", path: `${events}/:event`, endpoint: "calendar", answer: changeEvent },
      { method: "PUT", path: `${events}/:event`, endpoint: "calendar", answer: changeEvent },
      { method: "DELETE", path: `${events}/:event`, endpoint: "calendar", answer: deleteEvent },
    ];
  });
}

function listEvents(calendar: Calendar, { query }: Call): SandboxAnswer {
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
    // Only the last page has a sync token.
    ...(next.nextPageToken === undefined ? { nextSyncToken } : next),
  });
}

/** The fields of an event that a client sets; the calendar sets the others. */
function fieldsOf(call: Call): EventFields {
  const { kind, status, created, updated, etag, ...fields } = objectOf(call);
  return fields;
}

const shownEvent = ({ id, status, created, updated, revision, fields }: CalendarEvent) => ({
  ...fields,
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

/** Throws 410 for a malformed sync token or one from before a reset: the client must list everything again. */
function revisionIn(token: string, calendar: Calendar): number {
  const [, revision] = /^sync:(\d{1,15})$/.exec(Buffer.from(token, "base64url").toString("latin1")) ?? [];
  if (revision === undefined || Number(revision) > calendar.revision) {
    throw refuse(410, "fullSyncRequired", "Sync token is no longer valid, a full sync is required.");
  }
  return Number(revision);
}
