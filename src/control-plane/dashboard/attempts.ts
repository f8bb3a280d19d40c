import { Fault } from "../../base/fault.ts";
import { createTokenBuckets, type Rate, takeToken, waitMs } from "../../core/limits/token-buckets.ts";

/** Limits wrong sign-ins. */
export interface SignInAttempts {
  /** Runs a sign-in. Throws `too_many_requests` after too many that failed. */
  run<T>(address: string, signIn: () => Promise<T>): Promise<T>;
}

const ofAddress: Rate = { requests: 10, perMs: 60_000, burst: 10 };
/** Limits all addresses together: behind a load balancer, all may be one, and an attacker may have many. */
const ofAll: Rate = { requests: 120, perMs: 60_000, burst: 120 };
const maxAddresses = 10_000;

export function createSignInAttempts(): SignInAttempts {
  const buckets = createTokenBuckets(maxAddresses);
  const all = createTokenBuckets(1).of("all", 0);
  return {
    async run(address, signIn) {
      const now = performance.now();
      const own = buckets.of(address, now);
      const wait = Math.max(waitMs(own, ofAddress, now), waitMs(all, ofAll, now));
      if (wait > 0) {
        const message = "too many sign-ins failed; try again later";
        throw new Fault("too_many_requests", message, { retryAfterSeconds: Math.ceil(wait / 1_000) });
      }
      // Taken before the attempt, so that many at once are counted, and given back by a sign-in that succeeds.
      takeToken(own, ofAddress, now);
      takeToken(all, ofAll, now);
      const result = await signIn();
      own.fullAt -= ofAddress.perMs / ofAddress.requests;
      all.fullAt -= ofAll.perMs / ofAll.requests;
      return result;
    },
  };
}
