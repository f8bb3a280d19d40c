import type { TokenFailureKind } from "./tokens.ts";

/** RFC 8628, section 3.5. */
const slowDownMs = 5_000;
const longestMs = 60_000;

/** Returns how long a device waits before the next poll; undefined: no more polls, the outcome is final. */
export function nextPollMs(intervalMs: number, kind: TokenFailureKind): number | undefined {
  switch (kind) {
    case "pending":
      return intervalMs;
    // Applies to this poll and all later ones.
    case "slow_down":
      return intervalMs + slowDownMs;
    // The provider was unreachable or failed: poll less often from now on.
    case "passing":
    case "uncertain":
      return Math.max(intervalMs, Math.min(intervalMs * 2, longestMs));
    default:
      return undefined;
  }
}
