import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, partsOf, under } from "../../../store/keys.ts";
import { partitionOf } from "../../partitions/partition-of.ts";
import type { Partitions } from "../../partitions/partitions.ts";

/**
 * The imported connections of this process's partitions that are due, as the store has them under `description.due`. Skips
 * needless reads.
 */
export interface DueDescriptions {
  /** Returns whether something may be due: a change was seen, or the time of the next attempt has come. */
  mayBeDue(): boolean;
  /** Returns whether a change may have changed the count. */
  isCountStale(): boolean;
  /** Forces the next read. */
  invalidate(): void;
  /** Reads whether nothing is queued at all. */
  isEmpty(): Promise<boolean>;
  /** Reads the first due keys of each provider, and when the next one is due. */
  read(skipped: SkippedDescriptions): Promise<ReadonlyMap<string, string[]>>;
  /** Counts the queued connections for the metric, if the count is stale and the pace allows it. */
  count(signal: AbortSignal): Promise<void>;
  close(): void;
}

interface SkippedDescriptions {
  /** Whether the provider asked for a wait. */
  readonly isHeld: (provider: string) => boolean;
  readonly isUnderWay: (connection: string) => boolean;
}

const space = "description.due";
/** Due connections of one provider that are read at a time: more than start before the next read. */
const readAhead = 40;
const heldReadEveryMs = 1_000;
/** Counting takes at most a fiftieth of the time. */
const countShare = 50;
const countPage = 2_000;

/** Keys of one provider that a read examines: those of other processes are passed over. */
const mostExamined = 2_000;
const pageSize = 200;

export async function openDueDescriptions({
  store,
  partitions,
  onDue,
  world,
}: {
  readonly store: Store;
  readonly partitions: Pick<Partitions, "held">;
  /** Called when a change was seen that may make something due. */
  readonly onDue: () => void;
  readonly world: World;
}): Promise<DueDescriptions> {
  const { metrics } = world;
  const isOwn = (key: string) => partitions.held(partitionOf(connectionOf(key))) !== undefined;
  let isDirty = true;
  let nextDueMs = 0;
  let isCountStale = true;
  let countAgainAt = 0;

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
        if (!key.startsWith(`${space}\0`) || !isOwn(key)) continue;
        isCountStale = true;
        if (value === undefined) continue;
        isDirty = true;
        onDue();
      }
    },
  });

  return {
    mayBeDue: () => isDirty || world.now() >= nextDueMs,
    isCountStale: () => isCountStale,
    invalidate() {
      isDirty = true;
    },
    async isEmpty() {
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
    },
    async read({ isHeld, isUnderWay }) {
      isDirty = false;
      const nowMs = world.now();
      const found = new Map<string, string[]>();
      let next = Number.POSITIVE_INFINITY;
      const { from: first, to } = under(space);
      for (let from = first; ; ) {
        const [one] = await store.list({ from, to, limit: 1 });
        const [, provider] = partsOf(one?.key ?? "");
        if (provider === undefined) break;
        const { due, nextMs } = await dueOf({ store, provider, nowMs, isOwn });
        if (!isHeld(provider)) next = Math.min(next, nextMs);
        if (isHeld(provider)) next = Math.min(next, nowMs + heldReadEveryMs);
        found.set(
          provider,
          due.filter((key) => !isUnderWay(connectionOf(key))),
        );
        from = under(space, provider).to;
      }
      nextDueMs = next;
      return found;
    },
    async count(signal) {
      if (!isCountStale || performance.now() < countAgainAt) return;
      isCountStale = false;
      const since = performance.now();
      let waiting = 0;
      let { from, to } = under(space);
      while (!signal.aborted) {
        const page = await store.list({ from, to, limit: countPage });
        waiting += page.filter(({ key }) => isOwn(key)).length;
        const last = page.at(-1);
        if (last === undefined || page.length < countPage) break;
        from = after(last.key);
      }
      countAgainAt = performance.now() + countShare * (performance.now() - since);
      metrics.descriptionsWaiting.set(waiting);
    },
    close: () => watch.close(),
  };
}

interface DueRead {
  readonly store: Store;
  readonly provider: string;
  readonly nowMs: number;
  readonly isOwn: (key: string) => boolean;
}

interface FirstDue {
  readonly due: string[];
  /** When the next one is due. */
  readonly nextMs: number;
}

/** Returns the first due keys of a provider that are this process's. */
async function dueOf({ store, provider, nowMs, isOwn }: DueRead): Promise<FirstDue> {
  const due: string[] = [];
  let { from, to } = under(space, provider);
  for (let seen = 0; seen < mostExamined; seen += pageSize) {
    const page = await store.list({ from, to, limit: pageSize });
    for (const { key } of page) {
      if (dueMsOf(key) > nowMs) return { due, nextMs: dueMsOf(key) };
      if (isOwn(key)) due.push(key);
      if (due.length === readAhead) return { due, nextMs: nowMs };
    }
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return { due, nextMs: Number.POSITIVE_INFINITY };
    from = after(last.key);
  }
  return { due, nextMs: nowMs + heldReadEveryMs };
}

/** Environment, integration and connection, by a key of `description.due`. */
export const connectionOf = (key: string): string => partsOf(key).slice(-3).join("\0");
const dueMsOf = (key: string): number => Number(partsOf(key)[2]);
