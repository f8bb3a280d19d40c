import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

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
  /** The longest time ahead that the provider allows; undefined: any. */
  readonly longestMs?: number | undefined;
  /** At least 0 and at most 1: spreads the refreshes of tokens that were issued together. */
  readonly jitter: number;
}

/** The time from which to refresh in the background, so that no caller waits. */
export function refreshAheadMs(lifetime: TokenLifetime): number {
  const { expiresAtMs, lifeMs = usualLifeMs, longestMs = maxAheadMs, jitter } = lifetime;
  const aheadMs = Math.min(maxAheadMs, longestMs, lifeMs * aheadShare);
  return expiresAtMs - aheadMs * (1 - jitter / 2);
}

/** The longest time before the expiry of a token at which its provider accepts a refresh; undefined: any. */
export function longestAheadMs({ auth }: Provider): number | undefined {
  const { maxAhead } = (auth.case === "oauth2" ? auth.value.refreshTokens : undefined) ?? {};
  return maxAhead === undefined ? undefined : durationMs(maxAhead);
}
