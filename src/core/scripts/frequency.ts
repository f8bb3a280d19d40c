const secondMs = 1_000;
const dayMs = 86_400_000;

/** Unit names, long and short. A month is 30 days: a schedule of equal steps has no calendar. */
const units: readonly (readonly [names: readonly string[], ms: number])[] = [
  [["s", "sec", "secs", "second", "seconds"], secondMs],
  [["m", "min", "mins", "minute", "minutes"], 60 * secondMs],
  [["h", "hr", "hrs", "hour", "hours"], 3_600 * secondMs],
  [["d", "day", "days"], dayMs],
  [["w", "week", "weeks"], 7 * dayMs],
  [["month", "months"], 30 * dayMs],
];
const unitMs = new Map(units.flatMap(([names, ms]) => names.map((name) => [name, ms] as const)));
const parts: Readonly<Record<string, number>> = { half: 0.5, quarter: 0.25 };

export const leastFrequencyMs = 30 * secondMs;
export const mostFrequencyMs = 31 * dayMs;

export type Frequency =
  | { readonly ok: true; readonly everyMs: number }
  /** Describes the problem, as the end of a sentence that begins with the input. */
  | { readonly ok: false; readonly problem: string };

/** Parses how often a sync runs, as people write it: `every 5 minutes`, `every half hour`, `1d`, `30s`. */
export function parseFrequency(text: string): Frequency {
  const form = /^(?:every\s+)?(?:(?<amount>\d{1,6})\s*|(?<part>half|quarter)\s+(?:an?\s+)?)?(?<unit>[a-z]+)$/;
  const { amount, part, unit = "" } = form.exec(text.trim().toLowerCase())?.groups ?? {};
  const one = unitMs.get(unit);
  // `hour` alone is no frequency; `every hour` is.
  const isBare = amount === undefined && !/^every\s/i.test(text.trim());
  if (one === undefined || isBare) {
    return { ok: false, problem: "must be a frequency such as `every 5 minutes`, `every hour` or `1d`" };
  }
  const everyMs = one * (amount === undefined ? (parts[part ?? ""] ?? 1) : Number(amount));
  if (everyMs < leastFrequencyMs) return { ok: false, problem: "must be at least 30 seconds" };
  if (everyMs > mostFrequencyMs) return { ok: false, problem: "must be at most 31 days" };
  return { ok: true, everyMs };
}

/**
 * Returns the first time after `afterMs` that is a whole number of steps from the anchor. Steps are equal and ignore
 * daylight saving time: a day is always 24 hours, and no run is skipped or repeated.
 */
export function nextDue(afterMs: number, everyMs: number, anchorMs: number): number {
  return anchorMs + (Math.floor((afterMs - anchorMs) / everyMs) + 1) * everyMs;
}
