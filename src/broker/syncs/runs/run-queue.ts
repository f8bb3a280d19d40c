import { runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { after, partsOf } from "../../../store/keys.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { connectionPartition } from "../../partitions/own-work.ts";
import { runsDue, type SyncCollections, timeOfDueKey } from "../sync-collections.ts";

/**
 * Queued runs of this process's partitions that were read from the store: what never changes of them. Reads the store at
 * intervals and for newly reported runs, not each time that a slot gets free: thousands of runs may wait behind an
 * integration that is at its limit. Returns the runs of a lane in order, however many wait: a run is held back while an
 * older run of its lane may exist that is not known here.
 */
export interface RunQueue {
  /** Adds a newly queued run by its key in `run.queued`; the partition is undefined if it is not known. */
  add(key: string, partition: number | undefined): void;
  /** Forgets a run that is not queued any more. */
  remove(key: string): void;
  /** Updates the known runs from the store. */
  refresh(nowMs: number): Promise<void>;
  /** Removes and returns the next run that may start; the longest due comes first. */
  take(mayBegin: (waiting: QueuedRun) => boolean): QueuedRun | undefined;
  /** Returns how long the first run has been due. */
  overdueMs(nowMs: number): number;
  /** Drops all known runs: partitions were taken, or changes may have been missed. */
  forget(): void;
}

export interface QueuedRun {
  readonly environment: string;
  readonly id: string;
  readonly lane: string;
  readonly integration: string;
  readonly partition: number;
  readonly key: string;
}

/** A part of the queue that was read and dropped from memory, except for this summary. */
interface Gap {
  readonly from: string;
  /** Lanes that have a run in the gap. */
  readonly lanes: Set<string>;
}

interface QueueOptions {
  readonly store: Store;
  readonly collections: Pick<SyncCollections, "runs">;
  /** Whether runs of the partition belong to this process. */
  readonly isOwn: (partition: number) => boolean;
}

const pageSize = 200;
/** Limits the queued runs that one read examines to find some that can start. */
const maxExaminedRuns = 2_000;
/** Interval between full reads: runs become due over time, and reports of runs may have been missed. */
const readEveryMs = 1_000;
/** Interval between reads while more runs wait than one read examines. */
const readOnEveryMs = 250;
/** Runs of other processes whose partition is remembered. */
const maxOthers = 20_000;

export function createRunQueue({ store, collections: { runs }, isOwn }: QueueOptions): RunQueue {
  let known: readonly QueuedRun[] = [];
  let newKeys: string[] = [];
  let readAt = Number.NEGATIVE_INFINITY;
  /** Position where the last read stopped and the next continues; undefined if that read reached the end. */
  let resumeAt: string | undefined;
  /** The gap between the beginning of the known runs and the later ones. */
  let gap: Gap | undefined;
  const others = createOtherRuns(isOwn);

  /** Returns those of these runs that belong to this process. */
  async function queuedRunsAt(keys: readonly string[]): Promise<readonly QueuedRun[]> {
    const found = await runs.getMany(keys.map((key) => partsOf(key).slice(-2)));
    return found.flatMap((one, i) => {
      if (one === undefined) return [];
      const run = queuedRunOf(one, keys[i] ?? "");
      if (isOwn(run.partition)) return run;
      others.add(run.key, run.partition);
      return [];
    });
  }

  async function readAll(nowMs: number): Promise<void> {
    readAt = performance.now();
    newKeys = [];
    let { from, to } = runsDue(nowMs);
    const byKey = new Map(known.filter((run) => isOwn(run.partition)).map((run) => [run.key, run]));
    const all: QueuedRun[] = [];
    let nextGap: Gap | undefined;
    for (let seen = 0; seen < maxExaminedRuns; seen += pageSize) {
      const keys = (await store.list({ from, to, limit: pageSize })).map(({ key }) => key);
      const newKeysOfPage = keys.filter((key) => !byKey.has(key) && !others.has(key));
      for (const one of newKeysOfPage.length === 0 ? [] : await queuedRunsAt(newKeysOfPage)) byKey.set(one.key, one);
      all.push(...keys.flatMap((key) => byKey.get(key) ?? []));
      const last = keys.at(-1);
      if (last === undefined || keys.length < pageSize) {
        [known, gap, resumeAt] = [all, nextGap, undefined];
        return;
      }
      from = after(last);
      // After the first page, continue where the last read stopped: many runs of one lane must not hide the runs after
      // them.
      if (seen > 0 || resumeAt === undefined || resumeAt <= last) continue;
      nextGap = { from, lanes: gap?.lanes ?? new Set() };
      for (const { key, lane } of known) if (key >= from) nextGap.lanes.add(lane);
      from = resumeAt;
    }
    [known, gap, resumeAt] = [all, nextGap, from];
  }

  /** Returns whether an older run of the same lane may wait in the gap. */
  const isBehind = ({ key, lane }: QueuedRun) => gap !== undefined && key >= gap.from && gap.lanes.has(lane);

  return {
    add(key, partition) {
      if (partition !== undefined && !isOwn(partition)) others.add(key, partition);
      else if (newKeys.length < maxExaminedRuns) newKeys.push(key);
      // Too many to list: the next full read finds the rest in the store.
      else readAt = Number.NEGATIVE_INFINITY;
    },
    remove: others.remove,
    async refresh(nowMs) {
      const everyMs = resumeAt === undefined ? readEveryMs : readOnEveryMs;
      if (performance.now() - readAt >= everyMs) return readAll(nowMs);
      if (newKeys.length === 0) return;
      // Skip keys after the position where the last read stopped: older runs of their lanes may be in between. A later
      // read finds them.
      const to = resumeAt ?? runsDue(nowMs).to;
      const keys = new Set(newKeys.filter((key) => key < to));
      newKeys = [];
      for (const { key } of known) keys.delete(key);
      const come = await queuedRunsAt([...keys]);
      known = [...known, ...come].sort((a, b) => (a.key < b.key ? -1 : 1));
    },
    take(mayBegin) {
      const found = known.find((one) => !isBehind(one) && mayBegin(one));
      if (found !== undefined) known = known.filter((one) => one !== found);
      return found;
    },
    overdueMs: (nowMs) => (known[0] === undefined ? 0 : Math.max(0, nowMs - timeOfDueKey(known[0].key))),
    forget() {
      readAt = Number.NEGATIVE_INFINITY;
      known = [];
      gap = undefined;
      resumeAt = undefined;
    },
  };
}

/** Queued runs of other processes by key: their records are not read. */
function createOtherRuns(isOwn: (partition: number) => boolean) {
  const partitions = new Map<string, number>();
  return {
    has(key: string): boolean {
      const partition = partitions.get(key);
      return partition !== undefined && !isOwn(partition);
    },
    add(key: string, partition: number): void {
      if (partitions.size >= maxOthers) partitions.clear();
      partitions.set(key, partition);
    },
    remove: (key: string): void => void partitions.delete(key),
  };
}

function queuedRunOf({ value }: StoredRecordOf<StoredRun>, key: string): QueuedRun {
  const { id, connection } = runOf(value);
  const { environment = "", integration = "", id: connectionId = "" } = connection ?? {};
  const partition = connectionPartition(environment, integration, connectionId);
  return { environment, id, lane: value.lane, integration: `${environment}\0${integration}`, partition, key };
}
