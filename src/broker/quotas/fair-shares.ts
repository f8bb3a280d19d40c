/** What a replica wants of a limit, in requests a second. */
export interface QuotaDemand {
  readonly interactive: number;
  readonly background: number;
}

/** Room above the measured interactive demand, so that its queue stays short. */
const headroom = 1.5;
const spareRequests = 1;

/**
 * Divides a limit among replicas: interactive demand first, the rest in proportion to the background demand. All of it
 * is given out, and the shares add up to 1. Every replica computes the same from the same demands.
 */
export function fairShares(demands: readonly QuotaDemand[], ratePerSecond: number): readonly number[] {
  if (demands.length === 0) return [];
  const wanted = demands.map(({ interactive }) =>
    interactive === 0 ? 0 : (interactive * headroom + spareRequests) / ratePerSecond,
  );
  const total = sum(wanted);
  if (total >= 1) return wanted.map((one) => one / total);
  const background = demands.map((one) => one.background);
  const weights = sum(background) > 0 ? background : total > 0 ? wanted : demands.map(() => 1);
  const all = sum(weights);
  return wanted.map((one, i) => one + ((1 - total) * (weights[i] ?? 0)) / all);
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
