import type { World } from "../../base/world.ts";
import { createQuotaQueue, type QuotaQueue, type QuotaRate, ratePerSecond } from "./quota-queue.ts";
import type { ShareExchange } from "./share-exchange.ts";

/** The limits in use in this process, and their division among the replicas. */
export interface KeptQuotas {
  /** Returns the limit of this name, and begins to divide it. */
  of(name: string, rate: QuotaRate): KeptQuota;
  /** Returns what responses said of this name; undefined if they said nothing. */
  learned(name: string): KeptQuota | undefined;
  /** Holds requests of this name back for a while. */
  hold(name: string, holdMs: number): void;
  /** Exchanges demands and shares soon. */
  exchangeSoon(): void;
  close(): Promise<void>;
}

interface KeptQuotasOptions {
  /** Undefined: no other process uses the store, and this one has all of each limit. */
  readonly exchange: ShareExchange | undefined;
  readonly world: World;
}

export interface KeptQuota {
  readonly name: string;
  readonly rate: QuotaRate;
  readonly queue: QuotaQueue;
  interactive: number;
  background: number;
  usedAt: number;
  /** Other replicas use it too. */
  readonly isDivided: boolean;
  /** The store has our share. */
  isShared: boolean;
}

const exchangeEveryMs = 500;
/** A new limit asks for its share at once. */
const firstExchangeMs = 10;
/** The share that a replica may use before it has asked for one. */
const firstShare = 0.02;
const idleMs = 10_000;
const mostKept = 50_000;
const mostExchanged = 500;
/** The rate of what responses say: it limits nothing by itself. */
const unlimited: QuotaRate = { requests: 1_000_000, periodMs: 1_000 };

export function createKeptQuotas({ exchange, world }: KeptQuotasOptions): KeptQuotas {
  const kept = new Map<string, KeptQuota>();
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Number.POSITIVE_INFINITY;
  let exchangedAt = performance.now();
  let isExchanging = false;
  let isClosed = false;
  let hasLearned = false;

  function quotaOf(name: string, rate: QuotaRate, isDivided = exchange !== undefined): KeptQuota {
    const known = kept.get(name);
    if (known !== undefined) return known;
    if (kept.size >= mostKept) dropIdle();
    const made = newQuota(name, rate, isDivided);
    kept.set(name, made);
    if (!isDivided) hasLearned ||= rate === unlimited;
    else {
      made.queue.setShare(firstShare);
    }
    schedule(firstExchangeMs);
    return made;
  }

  function schedule(afterMs: number): void {
    const at = performance.now() + afterMs;
    if (isClosed || at >= dueAt) return;
    clearTimeout(timer);
    dueAt = at;
    timer = setTimeout(() => void tick(), afterMs);
    timer.unref();
  }

  /** Exchanges demands and shares of the limits in use, in one commit. */
  async function tick(): Promise<void> {
    dueAt = Number.POSITIVE_INFINITY;
    if (isExchanging || isClosed) return;
    isExchanging = true;
    let nextMs = exchangeEveryMs;
    try {
      const now = performance.now();
      const passedS = Math.max(0.05, (now - exchangedAt) / 1_000);
      exchangedAt = now;
      for (const one of kept.values()) measure(one, passedS, now);
      const idle = [...kept.values()].filter((one) => one.queue.isIdle && now - one.usedAt > idleMs);
      const left = idle.filter((one) => one.isShared).slice(0, mostExchanged);
      if (exchange !== undefined && left.length > 0) await exchange.leave(left.map(({ name }) => name));
      for (const one of idle) if (!one.isShared || left.includes(one)) kept.delete(one.name);
      const used = [...kept.values()].filter((one) => one.isDivided).slice(0, mostExchanged);
      const grants =
        used.length === 0 || exchange === undefined
          ? []
          : await exchange.exchange(used.map((one) => sharedOf(one, world.now())));
      if (grants === undefined) nextMs = 5 + Math.random() * 40;
      for (const [i, grant] of (grants ?? []).entries()) {
        const one = used[i];
        if (one === undefined) continue;
        // To the end: where there are more limits than one commit takes, each has its turn.
        if (kept.delete(one.name)) kept.set(one.name, one);
        one.isShared = true;
        one.queue.setShare(Math.max(grant.share, firstShare));
        if (grant.heldUntilMs > world.now()) one.queue.holdUntil(now + grant.heldUntilMs - world.now());
      }
    } catch (err) {
      // The last shares stay in force.
      world.log.warn("could not divide providers' limits among the replicas; will retry", { err });
    } finally {
      isExchanging = false;
      if (kept.size > 0) schedule(nextMs);
    }
  }

  function dropIdle(): void {
    for (const one of kept.values()) if (one.queue.isIdle && !one.isShared) kept.delete(one.name);
  }

  return {
    of: (name, rate) => quotaOf(name, rate),
    learned: (name) => (hasLearned ? kept.get(learnedName(name)) : undefined),
    hold(name, holdMs) {
      quotaOf(learnedName(name), unlimited, false).queue.holdUntil(performance.now() + holdMs);
    },
    exchangeSoon: () => schedule(firstExchangeMs),
    async close() {
      isClosed = true;
      clearTimeout(timer);
      const shared = [...kept.values()].filter((one) => one.isShared).map(({ name }) => name);
      if (exchange === undefined || shared.length === 0) return;
      await exchange.leave(shared.slice(0, mostExchanged)).catch(() => {
        /* The shares expire on their own. */
      });
    },
  };
}

const learnedName = (owner: string): string => `${owner}\0learned`;

/** Updates the measured demand. */
function measure(one: KeptQuota, passedS: number, now: number): void {
  const { interactive, background } = one.queue.takeArrivals();
  if (interactive + background > 0) one.usedAt = now;
  const part = Math.min(1, passedS * 2);
  one.interactive += part * (interactive / passedS - one.interactive);
  one.background += part * (background / passedS - one.background);
}

const sharedOf = ({ name, rate, queue, interactive, background }: KeptQuota, nowMs: number) => ({
  name,
  ratePerSecond: ratePerSecond(rate),
  demand: { interactive: interactive < 0.01 ? 0 : interactive, background: background < 0.01 ? 0 : background },
  heldUntilMs: Math.max(0, nowMs + queue.heldUntil - performance.now()),
});

const newQuota = (name: string, rate: QuotaRate, isDivided: boolean): KeptQuota => ({
  name,
  rate,
  queue: createQuotaQueue(rate),
  interactive: 0,
  background: 0,
  usedAt: performance.now(),
  isDivided,
  isShared: false,
});
