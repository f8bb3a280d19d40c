import { runOf } from "../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after, partsOf } from "../../store/keys.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import { type Collections, runsDue, timeOfDueKey } from "../collections.ts";

/**
 * Those that wait to be run, as far as they have been read: their place, lane and integration, which never change.
 * The store is asked again now and then and for what was heard of since, and not each time that there is room for
 * one more: behind an integration that has all the runs that it may have, thousands may wait. Those of one lane are
 * given in their order, however many wait: what an older one may stand before that is not known here, is not given.
 */
export interface RunQueue {
  /** What was put down since, under this key of `run.queued`. */
  heard(key: string): void;
  /** Brings what is known up to date. */
  look(nowMs: number): Promise<void>;
  /** Takes out the next that may begin, the longest due first. */
  take(mayBegin: (waiting: QueuedRun) => boolean): QueuedRun | undefined;
  /** How long the first of them has been due. */
  overdueMs(nowMs: number): number;
  /** Somebody else may have changed everything. */
  forget(): void;
}

export interface QueuedRun {
  readonly environment: string;
  readonly id: string;
  readonly lane: string;
  readonly integration: string;
  readonly key: string;
}

/** What was read of those that wait, and is not kept but for this. */
interface Gap {
  readonly from: string;
  /** Of which something waits in it. */
  readonly lanes: Set<string>;
}

interface QueueOptions {
  readonly store: Store;
  readonly collections: Pick<Collections, "runs">;
}

const pageSize = 200;
/** So many of those that wait are looked through for some that can be begun. */
const lookedThrough = 2_000;
/** The clock moves, and what was said of others may have been missed. */
const readEveryMs = 1_000;
/** Where more wait than are looked through at once. */
const readOnEveryMs = 250;

export function createRunQueue({ store, collections: { runs } }: QueueOptions): RunQueue {
  let row: readonly QueuedRun[] = [];
  let fresh: string[] = [];
  let readAt = Number.NEGATIVE_INFINITY;
  /** Where the last reading gave up, and the next goes on; undefined: it came to the end. */
  let resumeAt: string | undefined;
  /** Between the beginning of the row and a later stretch of it. */
  let gap: Gap | undefined;

  async function waitingAt(keys: readonly string[]): Promise<readonly QueuedRun[]> {
    const found = await runs.getMany(keys.map((key) => partsOf(key).slice(-2)));
    return found.flatMap((one, i) => (one === undefined ? [] : waitingOf(one, keys[i] ?? "")));
  }

  async function readAnew(nowMs: number): Promise<void> {
    readAt = performance.now();
    fresh = [];
    let { from, to } = runsDue(nowMs);
    const known = new Map(row.map((one) => [one.key, one]));
    const all: QueuedRun[] = [];
    let left: Gap | undefined;
    for (let seen = 0; seen < lookedThrough; seen += pageSize) {
      const keys = (await store.list({ from, to, limit: pageSize })).map(({ key }) => key);
      const news = keys.filter((key) => !known.has(key));
      for (const one of news.length === 0 ? [] : await waitingAt(news)) known.set(one.key, one);
      all.push(...keys.flatMap((key) => known.get(key) ?? []));
      const last = keys.at(-1);
      if (last === undefined || keys.length < pageSize) {
        [row, gap, resumeAt] = [all, left, undefined];
        return;
      }
      from = after(last);
      // Behind the first of them, where the last look gave up: many of one lane must not hide what comes after them.
      if (seen > 0 || resumeAt === undefined || resumeAt <= last) continue;
      left = { from, lanes: gap?.lanes ?? new Set() };
      for (const { key, lane } of row) if (key >= from) left.lanes.add(lane);
      from = resumeAt;
    }
    [row, gap, resumeAt] = [all, left, from];
  }

  /** An older one of its lane waits where it is not known any more. */
  const isBehind = ({ key, lane }: QueuedRun) => gap !== undefined && key >= gap.from && gap.lanes.has(lane);

  return {
    heard(key) {
      if (fresh.length < lookedThrough) fresh.push(key);
      // More than is looked through: they are found where they lie.
      else readAt = Number.NEGATIVE_INFINITY;
    },
    async look(nowMs) {
      const everyMs = resumeAt === undefined ? readEveryMs : readOnEveryMs;
      if (performance.now() - readAt >= everyMs) return readAnew(nowMs);
      if (fresh.length === 0) return;
      // Beyond where the last reading gave up there may be older ones of their lanes: they are read when it comes there.
      const to = resumeAt ?? runsDue(nowMs).to;
      const keys = new Set(fresh.filter((key) => key < to));
      fresh = [];
      for (const { key } of row) keys.delete(key);
      const come = await waitingAt([...keys]);
      row = [...row, ...come].sort((a, b) => (a.key < b.key ? -1 : 1));
    },
    take(mayBegin) {
      const found = row.find((one) => !isBehind(one) && mayBegin(one));
      if (found !== undefined) row = row.filter((one) => one !== found);
      return found;
    },
    overdueMs: (nowMs) => (row[0] === undefined ? 0 : Math.max(0, nowMs - timeOfDueKey(row[0].key))),
    forget() {
      readAt = Number.NEGATIVE_INFINITY;
      row = [];
      gap = undefined;
      resumeAt = undefined;
    },
  };
}

function waitingOf({ value }: StoredRecordOf<StoredRun>, key: string): QueuedRun {
  const { id, connection } = runOf(value);
  const { environment = "", integration = "" } = connection ?? {};
  return { environment, id, lane: value.lane, integration: `${environment}\0${integration}`, key };
}
