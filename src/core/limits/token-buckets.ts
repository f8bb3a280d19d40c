/** A number of requests per period, and the size of a burst. */
export interface Rate {
  readonly requests: number;
  readonly perMs: number;
  readonly burst: number;
}

/**
 * A token bucket per name, by the generic cell rate algorithm (ITU-T I.371). Stores only the time at which a bucket
 * will be full. A full bucket equals an absent one, so evicting it loses nothing. Times are milliseconds of a monotonic
 * clock.
 */
export interface TokenBuckets {
  /** Returns the bucket of a name; a new name starts with a full bucket. */
  of(name: string, nowMs: number): Bucket;
  /** Evicts full buckets; inspects at most `atMost` buckets. */
  sweep(nowMs: number, atMost: number): void;
  readonly size: number;
}

export interface Bucket {
  fullAt: number;
}

/** Tolerance for rounding errors when adding fractions of a millisecond. */
const grainMs = 1e-6;
/** Number of buckets compared before one that is not full is evicted; its name then restarts with a full bucket. */
const choice = 8;

/** Returns the time until the next token; 0 if a token is available. */
export function waitMs(bucket: Bucket, { requests, perMs, burst }: Rate, nowMs: number): number {
  const everyMs = perMs / requests;
  // If an earlier rate was looser, the bucket may owe more than the current rate could ever require: cap it.
  bucket.fullAt = Math.min(bucket.fullAt, nowMs + burst * everyMs);
  const overMs = bucket.fullAt - nowMs - (burst - 1) * everyMs;
  return overMs > grainMs ? overMs : 0;
}

/** Takes a token from a bucket that has one. */
export function takeToken(bucket: Bucket, { requests, perMs }: Rate, nowMs: number): void {
  bucket.fullAt = Math.max(bucket.fullAt, nowMs) + perMs / requests;
}

/** Creates a map of at most `max` buckets; past that, the fullest of a few is evicted. */
export function createTokenBuckets(max: number): TokenBuckets {
  const buckets = new Map<string, Bucket>();
  // A map's iterator keeps its position while entries are added and removed.
  let hand = buckets.entries();

  function next(): [string, Bucket] | undefined {
    const step = hand.next();
    if (step.done !== true) return step.value;
    hand = buckets.entries();
    return hand.next().value;
  }

  function makeRoom(): void {
    let fullest: [string, Bucket] | undefined;
    for (let i = 0; i < choice; i += 1) {
      const seen = next();
      if (seen !== undefined && (fullest === undefined || seen[1].fullAt < fullest[1].fullAt)) fullest = seen;
    }
    if (fullest !== undefined) buckets.delete(fullest[0]);
  }

  return {
    of(name, nowMs) {
      const known = buckets.get(name);
      if (known !== undefined) return known;
      if (buckets.size >= max) makeRoom();
      const made = { fullAt: nowMs };
      buckets.set(name, made);
      return made;
    },
    sweep(nowMs, atMost) {
      for (let i = Math.min(atMost, buckets.size); i > 0; i -= 1) {
        const seen = next();
        if (seen === undefined) return;
        if (seen[1].fullAt <= nowMs) buckets.delete(seen[0]);
      }
    },
    get size() {
      return buckets.size;
    },
  };
}
