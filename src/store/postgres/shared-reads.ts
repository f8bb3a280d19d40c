import { type Entry, type Store, StoreUnavailable } from "../contract.ts";

/**
 * Merges reads of single keys that arrive in the same tick, or during other reads, into the next read, as commits share
 * a write. The read itself is cheap, but each request costs a statement or a thread switch. A key that many ask for at
 * once, such as the integration of all connections being refreshed, is read and decrypted once for all.
 */
export type GetMany = Store["getMany"];

interface QueuedRead {
  readonly keys: readonly string[];
  readonly resolve: (entries: readonly (Entry | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** More would take all threads of the pool, or all connections, from other work. */
const maxUnderWay = 3;
/** Small enough that callers do not wait long, and the response does not block the event loop. */
const maxGroupKeys = 64;

export function createSharedReads(getMany: GetMany): GetMany {
  let waiting: QueuedRead[] = [];
  let underWay = 0;
  let isBegun = false;

  function takeGroup(): { readonly group: readonly QueuedRead[]; readonly keys: ReadonlySet<string> } {
    const [first] = waiting;
    if (first !== undefined && first.keys.length >= maxGroupKeys) {
      // An import asks for many keys at once: they are read as they are.
      waiting = waiting.slice(1);
      return { group: [first], keys: new Set() };
    }
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
    const [only] = group;
    try {
      if (group.length === 1 && only !== undefined && (keys.size === 0 || keys.size === only.keys.length)) {
        only.resolve(await getMany(only.keys));
        return;
      }
      const asked = [...keys];
      const found = await getMany(asked);
      const entries = new Map(asked.map((key, i) => [key, found[i]]));
      for (const one of group) one.resolve(one.keys.map((key) => entries.get(key)));
    } catch (error) {
      // An error for a damaged value must reach only the callers that asked for that value.
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
      // Deferred by a microtask, so that reads of the same tick share the query.
      queueMicrotask(begin);
    });
}
