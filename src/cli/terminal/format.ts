import { type Duration, durationMs, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

/** Formats a number for people: `1,000,000`. */
export const formatNumber = (count: number): string => count.toLocaleString("en-US", { maximumFractionDigits: 0 });

/** Formats a duration: `0.4 s`, `41 s`, `2 min 5 s`, `1 h 3 min`. */
export function formatMs(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Formats a count with its noun: `1 connection`, `2 connections`, `2 deliveries`. */
export const formatCount = (count: number, noun: string, plural = `${noun}s`): string =>
  `${formatNumber(count)} ${count === 1 ? noun : plural}`;

/** Formats a mostly short duration: `12 ms`, `1.2 s`; empty if unknown. */
export function formatDuration(duration: Duration | undefined): string {
  if (duration === undefined) return "";
  const ms = durationMs(duration);
  return ms < 1_000 ? `${formatNumber(ms)} ms` : formatMs(ms);
}

/** Formats a time for a table, to the second: `2026-08-01T12:00:00Z`; empty if there is none. */
export const formatTime = (at: Timestamp | undefined): string =>
  at === undefined
    ? ""
    : timestampDate(at)
        .toISOString()
        .replace(/\.\d+Z$/, "Z");

const ageUnits = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
] as const;

/** Formats a time relative to now, for a terminal: `3m`, `in 2h`, `12d`; empty if there is none. */
export function formatAge(at: Timestamp | undefined, now = Date.now()): string {
  if (at === undefined) return "";
  const ms = now - timestampDate(at).getTime();
  const size = Math.abs(ms);
  const [unit, length] = ageUnits.find(([, most]) => size >= most) ?? (["s", 1_000] as const);
  const text = `${Math.floor(size / length)}${unit}`;
  return ms < 0 && size >= 1_000 ? `in ${text}` : text;
}
