import { Fault } from "../../base/fault.ts";
import { type Bucket, takeToken, waitMs } from "../../core/limits/token-buckets.ts";

/** `interactive` requests pass before `background` ones, such as those of syncs. */
export type QuotaPriority = "interactive" | "background";

/** Lets requests through at this replica's share of a limit: interactive ones first. */
export interface QuotaQueue {
  /** Returns undefined if the request may be sent now, or a promise that resolves when it may. Rejects if that is late. */
  enter(priority: QuotaPriority, patienceMs: number): Promise<void> | undefined;
  setShare(share: number): void;
  /** The provider wants no request until this time of the monotonic clock. */
  holdUntil(atMs: number): void;
  readonly heldUntil: number;
  /** Requests that came since the last call, by priority. */
  takeArrivals(): Readonly<Record<QuotaPriority, number>>;
  readonly isIdle: boolean;
}

export interface QuotaRate {
  readonly requests: number;
  readonly periodMs: number;
}

interface WaitingRequest {
  readonly lateAt: number;
  readonly pass: () => void;
  readonly refuse: (error: unknown) => void;
}

/** Below the limit: requests arrive at the provider at other distances than they are sent. */
const usedPart = 0.99;
/** A timer that is late is made up for by as many requests at once. */
const leastBurst = 2;
const burstPart = 0.02;
const mostWaiting = 2_000;

/** The requests that a replica with the whole limit lets through in a second. */
export const ratePerSecond = ({ requests, periodMs }: QuotaRate): number => (requests * usedPart * 1_000) / periodMs;

export function createQuotaQueue(rate: QuotaRate): QuotaQueue {
  const bucket: Bucket = { fullAt: 0 };
  const waiting: Record<QuotaPriority, WaitingRequest[]> = { interactive: [], background: [] };
  let arrivals = { interactive: 0, background: 0 };
  let share = 1;
  let heldUntil = 0;
  let timer: NodeJS.Timeout | undefined;

  const current = () => ({
    requests: rate.requests * usedPart * share,
    perMs: rate.periodMs,
    burst: Math.max(leastBurst, rate.requests * burstPart * share),
  });

  function delayMs(nowMs: number): number {
    return Math.max(heldUntil - nowMs, waitMs(bucket, current(), nowMs));
  }

  /** Passes as many waiting requests as there are tokens, and refuses those that have waited too long. */
  function advance(): void {
    timer = undefined;
    const nowMs = performance.now();
    for (const queue of [waiting.interactive, waiting.background]) {
      while (queue.length > 0) {
        const [first] = queue;
        if (first === undefined) break;
        if (first.lateAt < nowMs) {
          queue.shift();
          first.refuse(tooLate(delayMs(nowMs)));
          continue;
        }
        if (delayMs(nowMs) > 0) break;
        queue.shift();
        takeToken(bucket, current(), nowMs);
        first.pass();
      }
    }
    schedule(nowMs);
  }

  function schedule(nowMs: number): void {
    const [first] = waiting.interactive.length > 0 ? waiting.interactive : waiting.background;
    if (timer !== undefined || first === undefined) return;
    const dueMs = Math.min(delayMs(nowMs), first.lateAt - nowMs + 1);
    timer = setTimeout(advance, Math.max(1, Math.min(dueMs, 1_000)));
  }

  return {
    enter(priority, patienceMs) {
      arrivals[priority] += 1;
      const nowMs = performance.now();
      const queue = waiting[priority];
      const isFirst = waiting.interactive.length === 0 && (priority === "interactive" || queue.length === 0);
      if (isFirst && delayMs(nowMs) === 0) {
        takeToken(bucket, current(), nowMs);
        return undefined;
      }
      const ahead = waiting.interactive.length + (priority === "background" ? waiting.background.length : 0);
      const { requests, perMs } = current();
      const expectedMs = delayMs(nowMs) + (ahead * perMs) / requests;
      if (expectedMs > patienceMs || queue.length >= mostWaiting) throw tooLate(expectedMs);
      return new Promise((pass, refuse) => {
        queue.push({ lateAt: nowMs + patienceMs, pass, refuse });
        schedule(nowMs);
      });
    },
    setShare(next) {
      if (next === share) return;
      share = next;
      clearTimeout(timer);
      advance();
    },
    holdUntil(atMs) {
      heldUntil = Math.max(heldUntil, atMs);
    },
    get heldUntil() {
      return heldUntil;
    },
    takeArrivals() {
      const taken = arrivals;
      arrivals = { interactive: 0, background: 0 };
      return taken;
    },
    get isIdle() {
      return waiting.interactive.length === 0 && waiting.background.length === 0 && heldUntil <= performance.now();
    },
  };
}

const tooLate = (delay: number): Fault =>
  Fault.withoutStack("too_many_requests", "the provider's limit is used up (provider_quota); try again later", {
    retryAfterSeconds: Math.max(1, Math.ceil(delay / 1_000)),
  });
