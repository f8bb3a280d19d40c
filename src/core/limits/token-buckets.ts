/** So many requests in so much time, and how many of them may come at once. */
export interface Rate {
  readonly requests: number;
  readonly perMs: number;
  readonly burst: number;
}

/**
 * A token bucket for each name, by the generic cell rate algorithm (ITU-T I.371): all there is to keep of a bucket is
 * the time at which it will be full. One that is full is as good as none, so that to let go of it forgets nothing.
 * Times are milliseconds of a clock that never goes back.
 */
export interface TokenBuckets {
  /** The bucket of a name; of one that has none, a full one. */
  of(name: string, nowMs: number): Bucket;
  /** Lets go of full ones, and looks at no more than so many. */
  sweep(nowMs: number, atMost: number): void;
  readonly size: number;
}

export interface Bucket {
  fullAt: number;
}

/** What is added and taken in fractions of a millisecond comes out a little off. */
const grainMs = 1e-6;
/** So many are looked at before one goes that is not full; its name begins anew with a full one. */
const choice = 8;

/** How long until the next token; 0 when there is one. */
export function waitMs(bucket: Bucket, { requests, perMs, burst }: Rate, nowMs: number): number {
  const everyMs = perMs / requests;
  // Of a laxer rate that held before there may be more to wait for than this one would ever ask.
  bucket.fullAt = Math.min(bucket.fullAt, nowMs + burst * everyMs);
  const overMs = bucket.fullAt - nowMs - (burst - 1) * everyMs;
  return overMs > grainMs ? overMs : 0;
}

/** Of one that has a token. */
export function takeToken(bucket: Bucket, { requests, perMs }: Rate, nowMs: number): void {
  bucket.fullAt = Math.max(bucket.fullAt, nowMs) + perMs / requests;
}

/** At most `max` of them: with one more, the fullest of a few has to go. */
export function createTokenBuckets(max: number): TokenBuckets {
  const buckets = new Map<string, Bucket>();
  // A map's iterator goes on where it was, whatever came and went meanwhile.
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
