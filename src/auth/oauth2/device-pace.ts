import type { TokenFailureKind } from "./tokens.ts";

/** RFC 8628, section 3.5. */
const slowDownMs = 5_000;
const longestMs = 60_000;

/** How long a device waits before it asks again; undefined: never, it is decided. */
export function nextPollMs(intervalMs: number, kind: TokenFailureKind): number | undefined {
  switch (kind) {
    case "pending":
      return intervalMs;
    // For this request and all that follow.
    case "slow_down":
      return intervalMs + slowDownMs;
    // It did not hear, or could not answer: less often from now on.
    case "passing":
    case "uncertain":
      return Math.max(intervalMs, Math.min(intervalMs * 2, longestMs));
    default:
      return undefined;
  }
}
