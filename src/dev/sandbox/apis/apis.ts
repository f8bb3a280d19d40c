import type { AccessCheck } from "../auth/access.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxTraffic } from "../seen.ts";
import { apiRoutes } from "./api.ts";
import { calendarRoutes } from "./calendar-routes.ts";
import { createCalendarStore } from "./calendar-store.ts";
import type { Channel } from "./channel.ts";
import { createChannels } from "./channels.ts";
import { fileRoutes } from "./file-routes.ts";
import { createFileStore } from "./file-store.ts";
import { createMail } from "./mail.ts";
import { createSheets } from "./sheets.ts";
import { streamRoutes } from "./streams.ts";
import type { SubscriptionStyle } from "./subscription-style.ts";
import { createSubscriptions, type SandboxSubscriptions } from "./subscriptions.ts";

/** The APIs behind the sandbox's authorization server: files, mail, spreadsheets, calendars and their channels. */
export interface SandboxApis {
  readonly routes: readonly SandboxRoute[];
  /** Adds an event to a user's primary calendar. */
  addEvent(owner: Person, summary: string): void;
  /** The channels that have neither expired nor been stopped. */
  channels(): readonly Channel[];
  readonly subscriptions: SandboxSubscriptions;
  reset(): void;
}

interface SandboxApisOptions {
  readonly now: () => number;
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
  readonly access: AccessCheck;
  readonly seen: SandboxTraffic;
  /** Aborted when the sandbox closes. */
  readonly closing: AbortSignal;
  readonly styles: readonly SubscriptionStyle[];
}

export function createApis(options: SandboxApisOptions): SandboxApis {
  const { now, origin, settings, access, seen, closing, styles } = options;
  const subscriptions = createSubscriptions({ now, styles, closing });
  const files = createFileStore(now);
  const mail = createMail({ now, access });
  const sheets = createSheets({ access });
  const calendars = createCalendarStore({ now, onChange: (calendar) => channels.changed(calendar) });
  const channels = createChannels({ now, origin, settings, access, calendars, seen, closing });

  return {
    routes: [
      ...apiRoutes(access),
      ...fileRoutes({ access, files }),
      ...streamRoutes(access),
      ...mail.routes,
      ...sheets.routes,
      ...channels.routes,
      ...subscriptions.routes,
      ...calendarRoutes({ access, calendars }),
    ],
    addEvent: (owner, summary) => void calendars.insert(calendars.get(owner, "primary"), { summary }),
    channels: channels.live,
    subscriptions,
    reset() {
      for (const part of [files, mail, sheets, calendars, channels, subscriptions]) part.reset();
    },
  };
}
