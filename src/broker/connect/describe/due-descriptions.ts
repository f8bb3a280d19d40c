import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, partsOf, under } from "../../../store/keys.ts";

/** The imported connections that are due, as the store has them under `description.due`. Skips needless reads. */
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
  /** Counts all queued connections for the metric, if the count is stale and the pace allows it. */
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

export async function openDueDescriptions({
  store,
  world,
}: {
  readonly store: Store;
  readonly world: World;
}): Promise<DueDescriptions> {
  const { metrics } = world;
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
        if (!key.startsWith(`${space}\0`)) continue;
        isCountStale = true;
        if (value !== undefined) isDirty = true;
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
        const page = await store.list({ from, to, limit: readAhead });
        const [, provider] = partsOf(page[0]?.key ?? "");
        if (provider === undefined) break;
        const keys = page.map(({ key }) => key).filter((key) => partsOf(key)[1] === provider);
        const due = keys.filter((key) => dueMsOf(key) <= nowMs);
        const later = keys[due.length];
        if (later !== undefined) next = Math.min(next, dueMsOf(later));
        if (due.length === readAhead && !isHeld(provider)) next = nowMs;
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
        waiting += page.length;
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

/** Environment, integration and connection, by a key of `description.due`. */
export const connectionOf = (key: string): string => partsOf(key).slice(-3).join("\0");
const dueMsOf = (key: string): number => Number(partsOf(key)[2]);
