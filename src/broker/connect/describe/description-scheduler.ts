import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { createHeldLease } from "../../../store/held-lease.ts";
import { after, partsOf, under } from "../../../store/keys.ts";
import type { Lease } from "../../../store/leases.ts";
import { type ConnectionDescriber, type DescribeResult, namesOf } from "./connection-describer.ts";

/**
 * Asks providers about imported connections, paced by provider: one replica for all. The store holds what is left to
 * ask, so that a restart continues where the process ended.
 */
export interface DescriptionScheduler {
  /** Starts work, as soon as this replica has the lease. */
  start(): void;
  /** Resolves when nothing is due any more that this replica may ask. */
  run(): Promise<void>;
  /** Waits a while for the answers under way. */
  close(): Promise<void>;
}

interface SchedulerOptions {
  readonly store: Store;
  readonly describer: ConnectionDescriber;
  readonly world: World;
}

const leaseMs = 15_000;
/** Requests to one provider: at once, and between the start of two. 20 a second, as for notification channels. */
const mostOfProvider = 4;
const startEveryMs = 50;
const lookEveryMs = mostOfProvider * startEveryMs;
const readEveryMs = 250;
const takeEveryMs = 1_000;
const mostInAll = 16;
/** Due connections of one provider that are read at a time: more than start before the next read. */
const readAhead = 40;
const troubleMs = 5_000;
const closeWithinMs = 10_000;
const longestHoldMs = 86_400_000;
const warnEveryMs = 60_000;
/** Counting takes at most a fiftieth of the time. */
const countShare = 50;
const countPage = 2_000;
const space = "description.due";

interface ProviderQueue {
  /** Keys of `description.due`, in order. */
  waiting: string[];
  underWay: number;
  /** The time in terms of `performance.now()`. */
  nextStartAt: number;
}

export async function openDescriptionScheduler(options: SchedulerOptions): Promise<DescriptionScheduler> {
  const { store, describer, world } = options;
  const { metrics, log } = world;
  const lease = createHeldLease({ store, name: "descriptions", lengthMs: leaseMs, onLost: () => forget() });
  const ended = new AbortController();
  const queues = new Map<string, ProviderQueue>();
  /** The running requests by connection. */
  const underWay = new Map<string, Promise<void>>();
  /** The end of each provider's wait, by the wall clock. */
  const held = new Map<string, number>();
  const warned = new Map<string, { at: number; more: number }>();
  /** Something may be due: a change was seen, or the time of the next attempt has come. */
  let isDirty = true;
  let nextDueMs = 0;
  let pausedUntil = 0;
  let takeAgainAt = 0;
  let readAgainAt = 0;
  let isForced = false;
  let countAgainAt = 0;
  let isCountStale = true;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<number> | undefined;

  const watch = await follow({
    store,
    world,
    spaces: [space],
    read: async () => () => {
      isDirty = true;
      isCountStale = true;
    },
    onCommit({ changes }) {
      for (const { key, value } of changes) {
        if (!key.startsWith(`${space}\0`)) continue;
        isCountStale = true;
        if (value !== undefined) isDirty = true;
      }
    },
  });

  function forget(): void {
    queues.clear();
    isDirty = true;
    metrics.descriptionsWaiting.set(0);
  }

  const queueOf = (provider: string): ProviderQueue => {
    const known = queues.get(provider);
    if (known !== undefined) return known;
    const made = { waiting: [], underWay: 0, nextStartAt: 0 };
    queues.set(provider, made);
    return made;
  };

  /** Starts what may start; returns how many were started. */
  async function look(): Promise<number> {
    const now = performance.now();
    if (now < pausedUntil || (now < takeAgainAt && !isForced)) return 0;
    const isDue = isDirty || world.now() >= nextDueMs;
    if (!isDue && !isCountStale && queues.size === 0) return 0;
    if (await isIdle()) return 0;
    const taken = await lease.hold();
    if (taken === undefined) {
      takeAgainAt = now + takeEveryMs;
      return 0;
    }
    await count();
    if (isDue && (now >= readAgainAt || isForced)) {
      readAgainAt = now + readEveryMs;
      await readDue();
    }
    return startDue(taken);
  }

  /** Whether nothing is queued. Taking the lease, and renewing it, would then cost commits uselessly. */
  async function isIdle(): Promise<boolean> {
    if (queues.size > 0 || underWay.size > 0) return false;
    const [wasDirty, wasDueMs] = [isDirty, nextDueMs];
    // Cleared before the read: a commit during the read sets it again.
    isDirty = false;
    nextDueMs = Number.POSITIVE_INFINITY;
    if ((await store.list({ ...under(space), limit: 1 })).length === 0) {
      isCountStale = isDirty;
      metrics.descriptionsWaiting.set(0);
      return true;
    }
    isDirty ||= wasDirty;
    nextDueMs = wasDueMs;
    return false;
  }

  /** Reads the first due keys of each provider, and when the next one is due. */
  async function readDue(): Promise<void> {
    isDirty = false;
    const nowMs = world.now();
    let next = Number.POSITIVE_INFINITY;
    const { from: first, to } = under(space);
    const seen = new Set<string>();
    for (let from = first; ; ) {
      const page = await store.list({ from, to, limit: readAhead });
      const [, provider] = partsOf(page[0]?.key ?? "");
      if (provider === undefined) break;
      const keys = page.map(({ key }) => key).filter((key) => partsOf(key)[1] === provider);
      const due = keys.filter((key) => dueMsOf(key) <= nowMs);
      const later = keys[due.length];
      if (later !== undefined) next = Math.min(next, dueMsOf(later));
      if (due.length === readAhead && !isHeld(provider)) next = nowMs;
      seen.add(provider);
      queueOf(provider).waiting = due.filter((key) => !underWay.has(connectionOf(key)));
      if (isHeld(provider)) next = Math.min(next, nowMs + takeEveryMs);
      from = under(space, provider).to;
    }
    for (const [provider, queue] of queues) {
      if (!seen.has(provider)) queue.waiting = [];
      if (queue.waiting.length === 0 && queue.underWay === 0) queues.delete(provider);
    }
    nextDueMs = next;
  }

  function startDue(taken: Lease): number {
    let started = 0;
    for (const [provider, queue] of queues) {
      while (mayStart(provider, queue)) {
        const key = queue.waiting.shift();
        if (key === undefined) break;
        if (underWay.has(connectionOf(key))) continue;
        start({ key, provider, queue, taken });
        started += 1;
      }
    }
    return started;
  }

  function isHeld(provider: string): boolean {
    const until = held.get(provider) ?? 0;
    // A wall clock that was set back must not block a provider forever.
    return until > world.now() && until <= world.now() + longestHoldMs;
  }

  function mayStart(provider: string, queue: ProviderQueue): boolean {
    return (
      !isHeld(provider) &&
      !ended.signal.aborted &&
      queue.waiting.length > 0 &&
      queue.underWay < mostOfProvider &&
      underWay.size < mostInAll &&
      performance.now() >= queue.nextStartAt
    );
  }

  interface Start {
    readonly key: string;
    readonly provider: string;
    readonly queue: ProviderQueue;
    readonly taken: Lease;
  }

  function start({ key, provider, queue, taken }: Start): void {
    const at = connectionOf(key);
    const [environment = "", integration = "", id = ""] = partsOf(at);
    const ref = create(ConnectionRefSchema, { environment, integration, id });
    const now = performance.now();
    queue.nextStartAt = Math.max(now - mostOfProvider * startEveryMs, queue.nextStartAt) + startEveryMs;
    queue.underWay += 1;
    const asked = describer
      .describe(ref, { lease: taken, signal: ended.signal })
      .then((result) => note(ref, provider, result))
      .catch((err: unknown) => {
        if (ended.signal.aborted) return;
        if (taken.isLostBy(err)) {
          lease.lost(taken);
          return;
        }
        isDirty = true;
        pausedUntil = performance.now() + troubleMs;
        log.error("an imported connection could not be described; the attempt is repeated", { ...namesOf(ref), err });
      })
      .finally(() => {
        underWay.delete(at);
        queue.underWay -= 1;
        lookSoon();
      });
    underWay.set(at, asked);
  }

  function note(ref: ConnectionRef, provider: string, { outcome, failure }: DescribeResult): void {
    if (outcome !== "obsolete") metrics.descriptions.inc({ outcome });
    if (failure === undefined) return;
    const { reason, retryAfterMs } = failure;
    if (retryAfterMs !== undefined) held.set(provider, world.now() + Math.min(retryAfterMs, longestHoldMs));
    warn(ref, { reason, outcome });
  }

  /** Logs one line a minute for each integration and reason: 100,000 connections may fail for the same reason. */
  function warn(ref: ConnectionRef, { reason, outcome }: { readonly reason: string; readonly outcome: string }): void {
    const at = `${ref.environment}\0${ref.integration}\0${reason}\0${outcome}`;
    const last = warned.get(at);
    if (last !== undefined && performance.now() - last.at < warnEveryMs) {
      last.more += 1;
      return;
    }
    if (warned.size > 1_000) warned.clear();
    warned.set(at, { at: performance.now(), more: 0 });
    const sentence =
      outcome === "given_up"
        ? "the provider did not describe an imported connection; it is not asked again"
        : "the provider did not describe an imported connection; it is asked again later";
    log.warn(sentence, { ...namesOf(ref), reason, ...(last && last.more > 0 ? { not_logged: last.more } : {}) });
  }

  async function count(): Promise<void> {
    if (!isCountStale || performance.now() < countAgainAt) return;
    isCountStale = false;
    const since = performance.now();
    let waiting = 0;
    let { from, to } = under(space);
    while (!ended.signal.aborted) {
      const page = await store.list({ from, to, limit: countPage });
      waiting += page.length;
      const last = page.at(-1);
      if (last === undefined || page.length < countPage) break;
      from = after(last.key);
    }
    countAgainAt = performance.now() + countShare * (performance.now() - since);
    metrics.descriptionsWaiting.set(waiting);
  }

  function lookSoon(): void {
    if (timer !== undefined && !ended.signal.aborted) void lookOnce();
  }

  function lookOnce(): Promise<number> {
    looking ??= look()
      .catch((err: unknown) => {
        isDirty = true;
        if (!ended.signal.aborted)
          log.warn("imported connections that wait for their description could not be read; retrying", { err });
        return 0;
      })
      .finally(() => {
        looking = undefined;
      });
    return looking;
  }

  return {
    start() {
      timer ??= setInterval(lookSoon, lookEveryMs).unref();
    },
    async run() {
      await looking;
      isDirty = true;
      isForced = true;
      try {
        while (!ended.signal.aborted) {
          const started = await lookOnce();
          if (underWay.size > 0) await Promise.race(underWay.values());
          else if (started === 0 && ![...queues].some(([name, queue]) => isPaced(name, queue))) return;
          else await sleep(startEveryMs);
        }
      } finally {
        isForced = false;
      }
    },
    async close() {
      clearInterval(timer);
      ended.abort();
      watch.close();
      await looking;
      await Promise.race([Promise.allSettled(underWay.values()), sleep(closeWithinMs, undefined, { ref: false })]);
      await lease.release();
    },
  };

  /** Whether the queue waits only for its pace. */
  function isPaced(provider: string, queue: ProviderQueue): boolean {
    return queue.waiting.length > 0 && performance.now() < queue.nextStartAt && !isHeld(provider);
  }
}

/** Environment, integration and connection, by a key of `description.due`. */
const connectionOf = (key: string): string => partsOf(key).slice(-3).join("\0");
const dueMsOf = (key: string): number => Number(partsOf(key)[2]);
