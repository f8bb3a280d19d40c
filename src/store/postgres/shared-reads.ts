import { type Entry, type Store, StoreUnavailable } from "../contract.ts";

/**
 * Reads of single keys that come in the same turn, or while others are under way, share the next one, as commits
 * share a write. To read is little work, and to ask for it is not: a statement, or a turn of a thread. What many ask
 * for at once, such as the integration of all that are renewed, is read and opened once for all of them.
 */
export type GetMany = Store["getMany"];

interface QueuedRead {
  readonly keys: readonly string[];
  readonly resolve: (entries: readonly (Entry | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** More would take all threads of the pool, or all connections, from everything else. */
const maxUnderWay = 3;
/** So little that whoever shares it does not wait for long, and its answer does not hold up the loop. */
const maxGroupKeys = 64;

export function createSharedReads(getMany: GetMany): GetMany {
  let waiting: QueuedRead[] = [];
  let underWay = 0;
  let isBegun = false;

  function takeGroup(): { readonly group: readonly QueuedRead[]; readonly keys: ReadonlySet<string> } {
    const keys = new Set<string>();
    let count = 0;
    for (const next of waiting) {
      if (count > 0 && keys.size + next.keys.length > maxGroupKeys) break;
      for (const key of next.keys) keys.add(key);
      count += 1;
    }
    const group = waiting.slice(0, count);
    waiting = waiting.slice(count);
    return { group, keys };
  }

  async function answer(group: readonly QueuedRead[], keys: ReadonlySet<string>): Promise<void> {
    try {
      const asked = [...keys];
      const found = await getMany(asked);
      const entries = new Map(asked.map((key, i) => [key, found[i]]));
      for (const one of group) one.resolve(one.keys.map((key) => entries.get(key)));
    } catch (error) {
      // Of a value that is damaged only those are to be told who want it.
      const isOfOne = group.length > 1 && !(error instanceof StoreUnavailable);
      if (isOfOne) await Promise.all(group.map((one) => answer([one], new Set(one.keys))));
      else for (const one of group) one.reject(error);
    }
  }

  function begin(): void {
    isBegun = false;
    while (waiting.length > 0 && underWay < maxUnderWay) {
      const { group, keys } = takeGroup();
      underWay += 1;
      void answer(group, keys).then(() => {
        underWay -= 1;
        begin();
      });
    }
  }

  return (keys) =>
    new Promise((resolve, reject) => {
      waiting.push({ keys, resolve, reject });
      if (isBegun) return;
      isBegun = true;
      // One turn later, so that what is asked for in the same turn shares the read.
      queueMicrotask(begin);
    });
}
