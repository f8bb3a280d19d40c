/** Values as people read them. */

import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { signal } from "@preact/signals";

/** The time by which ages are shown: one clock for the page, so that all ages change together. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 10_000);

const units: readonly (readonly [name: string, ms: number])[] = [
  ["y", 31_557_600_000],
  ["mo", 2_629_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

export const msOf = (time: Timestamp | undefined): number | undefined =>
  time === undefined ? undefined : timestampMs(time);

/** "3 min ago", "in 2 h", "just now". */
export function relativeTime(ms: number, from: number = now.value): string {
  const distance = Math.abs(from - ms);
  if (distance < 5_000) return "just now";
  const text = durationText(distance);
  return ms < from ? `${text} ago` : `in ${text}`;
}

/** The largest unit that fits: "3 min". */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  const [name, size] = units.find(([, size]) => ms >= size) ?? ["s", 1_000];
  return `${Math.floor(ms / size)} ${name}`;
}

const exactFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
export const exactTime = (ms: number): string => exactFormat.format(ms);

const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
export const clockTime = (ms: number): string => clockFormat.format(ms);

const countFormat = new Intl.NumberFormat("en");
export const countText = (count: number | bigint): string => countFormat.format(count);

/** "1 connection", "2,000 connections". */
export const counted = (count: number | bigint, one: string, many = `${one}s`): string =>
  `${countText(count)} ${Number(count) === 1 ? one : many}`;

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
export function bytesText(bytes: number | bigint): string {
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1_024 && unit < byteUnits.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${byteUnits[unit]}`;
}

/** `REAUTHORIZATION_REQUIRED` and `rotation_response_lost` as words. */
export function words(code: string): string {
  const text = code.toLowerCase().replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A message of a log as a sentence begins. */
export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A link that comes from data, if it leads to a web page; anything else is shown as text. */
export const safeLink = (url: string): string | undefined => (/^https?:\/\//i.test(url) ? url : undefined);
