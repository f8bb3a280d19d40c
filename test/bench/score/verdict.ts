/** Whether something became worse, judged by rounds of before and of now. */
export interface Verdict {
  readonly kind: "better" | "held" | "worse" | "unclear";
  /** Now to before, above 1 if it is better. */
  readonly change: number;
  /** The interval that holds the change in 19 of 20 comparisons; undefined with fewer than three rounds. */
  readonly interval: readonly [from: number, to: number] | undefined;
  readonly reason: string;
}

export interface Comparison {
  readonly better: "higher" | "lower";
  /** Values of single rounds: ratios to a peer of the same round where there is one. */
  readonly before: readonly number[];
  readonly now: readonly number[];
}

/** A change within this share is not worth a verdict. */
export const allowed = 0.1;
const fewestRounds = 3;

/** Two-sided 95 % quantiles of Student's t by degrees of freedom, from 1; further ones are near the last. */
const quantiles = [12.7, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13];

/**
 * Worse: more than 10 % worse by the medians, and the interval excludes that nothing changed. Held: the interval
 * excludes more than 10 % worse. Otherwise there is no verdict.
 */
export function verdictOf({ better, before, now }: Comparison): Verdict {
  const ratio = median(now) / median(before);
  const change = better === "higher" ? ratio : 1 / ratio;
  if (!Number.isFinite(change) || change <= 0) {
    return { kind: "unclear", change, interval: undefined, reason: "a median is 0 or missing" };
  }
  const halves = [before, now].map(halfWidth);
  if (halves.some((half) => half === undefined)) {
    return { kind: "unclear", change, interval: undefined, reason: `fewer than ${fewestRounds} rounds` };
  }
  const half = Math.hypot(...(halves as number[]));
  const interval = [change / Math.exp(half), change * Math.exp(half)] as const;
  const [from, to] = interval;
  if (change < 1 - allowed && to < 1) return { kind: "worse", change, interval, reason: "more than 10 % worse" };
  if (change > 1 + allowed && from > 1) return { kind: "better", change, interval, reason: "more than 10 % better" };
  if (from >= 1 - allowed) return { kind: "held", change, interval, reason: "at most 10 % worse" };
  const isWide = half > Math.log1p(allowed);
  const reason = isWide ? "the rounds differ too much for a verdict" : "near 10 % worse: more rounds decide";
  return { kind: "unclear", change, interval, reason };
}

/** Half the width of the interval of a mean of logarithms: rates and times vary by factors, not by sums. */
function halfWidth(values: readonly number[]): number | undefined {
  // The same value in each round is exact, for example 1 for a build beside itself.
  if (values.length < fewestRounds) return undefined;
  if (values.every((value) => value === values[0])) return 0;
  const logs = values.map((value) => Math.log(Math.max(value, Number.MIN_VALUE)));
  const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (logs.length - 1);
  const quantile = quantiles[Math.min(logs.length - 1, quantiles.length) - 1] ?? 2;
  return quantile * Math.sqrt(variance / logs.length);
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? (sorted[half] ?? 0) : ((sorted[half - 1] ?? 0) + (sorted[half] ?? 0)) / 2;
}
