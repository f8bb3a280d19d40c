import type { Logged } from "./request-log.ts";
import type { Recorded, Sample, StoreWrite } from "./turn-probe.ts";

/** What a slow request waited for most. */
export const causes = [
  "young collection",
  "old collection",
  "a long turn",
  "turns before it",
  "own threads on the core",
  "others on the core",
  "a write of the store",
  "a write beside a compaction",
  "a late caller",
  "origin, caller or kernel",
] as const;

export type Cause = (typeof causes)[number];

export interface Explained extends Logged {
  readonly cause: Cause;
  /** The time of the cause. */
  readonly causedMs: number;
  /** What the longest turn ran, by its samples: the most frequent first. */
  readonly ran: readonly string[];
}

interface Turn {
  /** The loop waits for events first. */
  readonly from: number;
  readonly until: number;
  readonly idleMs: number;
  /** Without the time in poll. */
  readonly activeMs: number;
  readonly cpuMs: number;
  readonly otherThreadsMs: number;
}

/** A turn that runs code for longer delays its requests noticeably. */
const longTurnMs = 0.75;

function turnsOf({ turns }: Recorded): Turn[] {
  const all: Turn[] = [];
  for (let at = 4; at < turns.length; at += 4) {
    const since = (column: number) => (turns[at + column] ?? 0) - (turns[at + column - 4] ?? 0);
    const cpuMs = since(2);
    all.push({
      from: turns[at - 4] ?? 0,
      until: turns[at] ?? 0,
      idleMs: since(1),
      activeMs: Math.max(0, since(0) - since(1)),
      cpuMs,
      otherThreadsMs: since(3),
    });
  }
  return all;
}

/** The first of a sorted list that ends after a time. */
function firstAfter<T>(all: readonly T[], at: number, endOf: (one: T) => number): number {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOf(all[middle] as T) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Names the cause of each request: the largest share of the time between its start and its end. */
export function explain(requests: readonly Logged[], recorded: Recorded): Explained[] {
  const turns = turnsOf(recorded);
  const writes = recorded.writes.toSorted((a, b) => a.from - b.from);
  const collections = recorded.collections.toSorted((a, b) => a.at - b.at);
  return requests.map((request) => {
    const { lateMs = 0, tookMs } = request;
    const from = request.sentAtMs - recorded.wallMs + lateMs;
    const until = from + tookMs - lateMs;
    const overlap = (start: number, end: number) => Math.max(0, Math.min(end, until) - Math.max(start, from));
    const took = { young: 0, old: 0 };
    for (const { kind, at, tookMs } of collections) took[kind] += overlap(at, at + tookMs);
    const waited = { alone: 0, besideCompaction: 0 };
    let [active, cpu, others, longest] = [0, 0, 0, undefined as Turn | undefined];
    for (let i = firstAfter(turns, from, (turn) => turn.until); i < turns.length; i += 1) {
      const turn = turns[i] as Turn;
      if (turn.from >= until) break;
      const share = overlap(turn.from, turn.until) / Math.max(1e-6, turn.until - turn.from);
      active += turn.activeMs * share;
      cpu += turn.cpuMs * share;
      others += turn.otherThreadsMs * share;
      for (const wait of writesIn(writes, turn)) {
        const share = overlap(wait.from, wait.until);
        if (wait.isCompacting) waited.besideCompaction += share;
        else waited.alone += share;
      }
      if (longest === undefined || turn.activeMs > longest.activeMs) longest = turn;
    }
    const collected = took.young + took.old;
    // While it collects, the thread waits for helpers on the same core: that belongs to the collection.
    const offCore = Math.max(0, active - cpu - collected);
    const ownThreads = Math.min(offCore, others);
    const worked = Math.max(0, active - collected - offCore);
    const isLong = (longest?.cpuMs ?? 0) - collected >= longTurnMs;
    const shares: Readonly<Record<Cause, number>> = {
      "young collection": took.young,
      "old collection": took.old,
      "a long turn": isLong ? worked : 0,
      "turns before it": isLong ? 0 : worked,
      "own threads on the core": ownThreads,
      "others on the core": offCore - ownThreads,
      "a write of the store": waited.alone,
      "a write beside a compaction": waited.besideCompaction,
      "a late caller": lateMs,
      "origin, caller or kernel": Math.max(0, tookMs - lateMs - active - waited.alone - waited.besideCompaction),
    };
    const cause = causes.reduce((most, one) => (shares[one] > shares[most] ? one : most));
    const ran = longest === undefined ? [] : ranIn(recorded.samples, longest);
    return { ...request, cause, causedMs: shares[cause], ran };
  });
}

/** Returns the parts of a turn in which the loop waits for events while the store writes. */
function writesIn(writes: readonly StoreWrite[], { from, idleMs }: Turn): StoreWrite[] {
  const until = from + idleMs;
  const found: StoreWrite[] = [];
  for (let i = firstAfter(writes, from, (write) => write.until); i < writes.length; i += 1) {
    const write = writes[i] as StoreWrite;
    if (write.from >= until) break;
    found.push({ ...write, from: Math.max(from, write.from), until: Math.min(until, write.until) });
  }
  return found;
}

function ranIn(samples: readonly Sample[], { from, until }: Turn): string[] {
  const counts = new Map<string, number>();
  for (let i = firstAfter(samples, from, ({ at }) => at); i < samples.length; i += 1) {
    const { at, ran } = samples[i] as Sample;
    if (at > until) break;
    if (ran !== "(idle)") counts.set(ran, (counts.get(ran) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => `${name} ×${count}`);
}
