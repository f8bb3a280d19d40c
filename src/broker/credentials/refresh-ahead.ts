/**
 * Refresh a tenth of the lifetime before the expiry, at most an hour: outages of providers and networks last that long.
 */
const aheadShare = 0.1;
const maxAheadMs = 3_600_000;
/** Assumed lifetime of a token if the provider states none. */
const usualLifeMs = 3_600_000;

interface TokenLifetime {
  readonly expiresAtMs: number;
  /** The full lifetime when the token was issued; undefined: not known. */
  readonly lifeMs: number | undefined;
  /** At least 0 and at most 1: spreads the refreshes of tokens that were issued together. */
  readonly jitter: number;
}

/** The time from which to refresh in the background, so that no caller waits. */
export function refreshAheadMs({ expiresAtMs, lifeMs = usualLifeMs, jitter }: TokenLifetime): number {
  const aheadMs = Math.min(maxAheadMs, lifeMs * aheadShare);
  return expiresAtMs - aheadMs * (1 - jitter / 2);
}
