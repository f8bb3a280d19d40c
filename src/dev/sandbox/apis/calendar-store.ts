import { randomBytes } from "node:crypto";
import { refuse } from "../call.ts";
import type { Person } from "../people.ts";

/** One calendar of one user. */
export interface Calendar {
  readonly id: string;
  readonly summary: string;
  readonly owner: Person;
  readonly events: Map<string, CalendarEvent>;
  /** Counts the changes. A sync token asks for the events that changed after a revision. */
  revision: number;
}

export interface CalendarEvent {
  readonly id: string;
  readonly revision: number;
  readonly status: "confirmed" | "cancelled";
  readonly created: string;
  readonly updated: string;
  /** What the client sent: `summary`, `start`, `end` and the like. */
  readonly fields: EventFields;
}

export type EventFields = Readonly<Record<string, unknown>>;

/** Each user's calendars. The primary one has the user's address for its id. */
export interface CalendarStore {
  /** Throws 404 if the user has no such calendar. */
  get(owner: Person, id: string): Calendar;
  ownedBy(owner: Person): readonly Calendar[];
  /** Throws 404 for an unknown event, and 410 for a deleted one. */
  event(calendar: Calendar, id: string): CalendarEvent;
  insert(calendar: Calendar, fields: EventFields): CalendarEvent;
  update(calendar: Calendar, event: Omit<CalendarEvent, "revision" | "updated">): CalendarEvent;
  reset(): void;
}

interface CalendarStoreOptions {
  readonly now: () => number;
  /** Called after each change. */
  readonly onChange: (calendar: Calendar) => void;
}

const maxEvents = 5_000;
const keyOf = (owner: Person, id: string) => `${owner.id}\0${id}`;

export function createCalendarStore({ now, onChange }: CalendarStoreOptions): CalendarStore {
  const calendars = new Map<string, Calendar>();

  function ensureSamples(owner: Person): void {
    if (calendars.has(keyOf(owner, owner.email))) return;
    for (const calendar of sampleCalendars(owner)) calendars.set(keyOf(owner, calendar.id), calendar);
  }

  function update(calendar: Calendar, event: Omit<CalendarEvent, "revision" | "updated">): CalendarEvent {
    const stored = put(calendar, { ...event, updated: new Date(now()).toISOString() });
    onChange(calendar);
    return stored;
  }

  return {
    get(owner, id) {
      ensureSamples(owner);
      const found = calendars.get(keyOf(owner, id === "primary" ? owner.email : id));
      if (found === undefined) throw refuse(404, "notFound", "Not Found");
      return found;
    },
    ownedBy(owner) {
      ensureSamples(owner);
      return [...calendars.values()].filter((calendar) => calendar.owner.id === owner.id);
    },
    event(calendar, id) {
      const event = calendar.events.get(id);
      if (event === undefined) throw refuse(404, "notFound", "Not Found");
      if (event.status === "cancelled") throw refuse(410, "deleted", "Resource has been deleted");
      return event;
    },
    insert(calendar, { id, ...fields }) {
      if (typeof id === "string" && calendar.events.has(id)) {
        throw refuse(409, "duplicate", "The requested identifier already exists.");
      }
      if (calendar.events.size >= maxEvents) throw refuse(403, "quotaExceeded", "Calendar usage limits exceeded.");
      const eventId = typeof id === "string" && /^[a-v0-9]{5,1024}$/.test(id) ? id : randomBytes(13).toString("hex");
      return update(calendar, { id: eventId, status: "confirmed", created: new Date(now()).toISOString(), fields });
    },
    update,
    reset: () => calendars.clear(),
  };
}

/** The calendars that a user starts with: two, with a meeting on each of five days. */
function sampleCalendars(owner: Person): readonly Calendar[] {
  const names = [
    [owner.email, owner.name],
    [`team-${owner.id.slice(-1)}@group.calendar.example`, "Team"],
  ] as const;
  return names.map(([id, summary]) => {
    const calendar: Calendar = { id, summary, owner, events: new Map(), revision: 0 };
    for (let day = 1; day <= 5; day += 1) {
      const start = new Date(Date.UTC(2026, 0, day, 9)).toISOString();
      const end = new Date(Date.UTC(2026, 0, day, 10)).toISOString();
      const fields = { summary: `Meeting ${day}`, start: { dateTime: start }, end: { dateTime: end } };
      put(calendar, { id: `event${day}`, status: "confirmed", created: start, updated: start, fields });
    }
    return calendar;
  });
}

/** Stores an event as the latest change of its calendar. */
function put(calendar: Calendar, event: Omit<CalendarEvent, "revision">): CalendarEvent {
  calendar.revision += 1;
  const stored = { ...event, revision: calendar.revision };
  calendar.events.delete(event.id);
  calendar.events.set(event.id, stored);
  return stored;
}
