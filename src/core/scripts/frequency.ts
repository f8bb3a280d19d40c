const secondMs = 1_000;
const dayMs = 86_400_000;

/** What one is called, long and short. A month is thirty days: a schedule of equal steps knows no calendar. */
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
  /** What is wrong with it, as the end of a sentence that begins with what was written. */
  | { readonly ok: false; readonly problem: string };

/** How often a sync runs, as people write it: `every 5 minutes`, `every half hour`, `1d`, `30s`. */
export function parseFrequency(text: string): Frequency {
  const form = /^(?:every\s+)?(?:(?<amount>\d{1,6})\s*|(?<part>half|quarter)\s+(?:an?\s+)?)?(?<unit>[a-z]+)$/;
  const { amount, part, unit = "" } = form.exec(text.trim().toLowerCase())?.groups ?? {};
  const one = unitMs.get(unit);
  // `hour` by itself says nothing of how often; `every hour` does.
  const isBare = amount === undefined && !/^every\s/i.test(text.trim());
  if (one === undefined || isBare) {
    return { ok: false, problem: "is no frequency: write it as `every 5 minutes`, `every hour` or `1d`" };
  }
  const everyMs = one * (amount === undefined ? (parts[part ?? ""] ?? 1) : Number(amount));
  if (everyMs < leastFrequencyMs) return { ok: false, problem: "is too often: 30 seconds is the least" };
  if (everyMs > mostFrequencyMs) return { ok: false, problem: "is too seldom: 31 days is the most" };
  return { ok: true, everyMs };
}

/**
 * The first time after `afterMs` that is a whole number of steps from the anchor. Steps are equal whatever a clock on
 * the wall does: where the hour changes twice a year, a day is a day still, and nothing is left out or done twice.
 */
export function nextDue(afterMs: number, everyMs: number, anchorMs: number): number {
  return anchorMs + (Math.floor((afterMs - anchorMs) / everyMs) + 1) * everyMs;
}
