import type { Calendar } from "./calendar-store.ts";

/** A subscription to the changes of one calendar. */
export interface Channel {
  readonly id: string;
  readonly resourceId: string;
  readonly resourceUri: string;
  readonly address: string;
  readonly token: string | undefined;
  /** Milliseconds since 1970. */
  readonly expiration: number;
  /** The app that created the channel. */
  readonly clientId: string;
  readonly calendar: Calendar;
  /** The number of the last notification. */
  messageNumber: number;
  /** The last delivery in the queue: a channel sends one notification at a time. */
  lastDelivery: Promise<void>;
  queuedDeliveries: number;
}
