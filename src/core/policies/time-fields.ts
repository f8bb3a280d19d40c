import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { createLateCache } from "../../base/caches/late-cache.ts";

/** A moment in a time zone. */
interface LocalTime {
  readonly year: number;
  /** From 0. */
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
}

const msOf = ({ seconds, nanos }: Timestamp): number => Number(seconds) * 1_000 + Math.floor(nanos / 1e6);

const fixedOffset = /^([+-]?)(\d\d):(\d\d)$/;

function localTime(ms: number, zone: string | undefined): LocalTime {
  if (zone === undefined || zone === "UTC") return utcTime(ms);
  const [, sign, hours, minutes] = fixedOffset.exec(zone) ?? [];
  if (hours !== undefined) {
    const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
    return utcTime(sign === "-" ? ms - offset : ms + offset);
  }
  const parts = new Map(
    formatterOf(zone)
      .formatToParts(ms)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const part = (name: Intl.DateTimeFormatPartTypes) => parts.get(name) ?? 0;
  return {
    year: part("year"),
    month: part("month") - 1,
    day: part("day"),
    hour: part("hour"),
    minute: part("minute"),
    second: part("second"),
  };
}

function utcTime(ms: number): LocalTime {
  const date = new Date(ms);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth(),
    day: date.getUTCDate(),
    hour: date.getUTCHours(),
    minute: date.getUTCMinutes(),
    second: date.getUTCSeconds(),
  };
}

const formatters = createLateCache<Intl.DateTimeFormat>({ max: 50 });

/** Throws a RangeError for a time zone that does not exist. */
function formatterOf(zone: string): Intl.DateTimeFormat {
  const known = formatters.get(zone);
  if (known !== undefined) return known;
  const numeric = "numeric";
  const made = new Intl.DateTimeFormat("en-US", {
    hourCycle: "h23",
    timeZone: zone,
    year: numeric,
    month: numeric,
    day: numeric,
    hour: numeric,
    minute: numeric,
    second: numeric,
  });
  formatters.set(zone, made);
  return made;
}

const dayNumber = ({ year, month, day }: LocalTime): number => Math.floor(Date.UTC(year, month, day) / 86_400_000);

const field =
  (read: (time: LocalTime) => number) =>
  (message: Timestamp, zone: string | undefined): bigint =>
    BigInt(read(localTime(msOf(message), zone)));

/** CEL's methods of a timestamp, by name. Months, and days of the week and of the year, count from 0. */
export const timeFields = {
  getFullYear: field(({ year }) => year),
  getMonth: field(({ month }) => month),
  getDate: field(({ day }) => day),
  getDayOfMonth: field(({ day }) => day - 1),
  getDayOfWeek: field((time) => (dayNumber(time) + 4) % 7),
  getDayOfYear: field((time) => dayNumber(time) - dayNumber({ ...time, month: 0, day: 1 })),
  getHours: field(({ hour }) => hour),
  getMinutes: field(({ minute }) => minute),
  getSeconds: field(({ second }) => second),
  getMilliseconds: (message: Timestamp, _zone: string | undefined): bigint => BigInt(Math.floor(message.nanos / 1e6)),
} as const;
