import type { World } from "../../base/world.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import { dueRevocationSpace, type RevocationCollections } from "./revocation-collections.ts";

/** The tasks that are due, read from the store only when something may have changed or become due. */
export interface DueRevocations {
  mayBeDue(): boolean;
  /** Forces the next read. */
  invalidate(): void;
  /** Reads whether there is no task at all. */
  isEmpty(): Promise<boolean>;
  /** Reads the first due tasks of each integration. Passes over an integration that is held. */
  read(isHeld: (group: string) => boolean): Promise<readonly RevocationTask[]>;
  close(): void;
}

interface DueRevocationsOptions {
  readonly store: Store;
  readonly collections: RevocationCollections;
  readonly world: World;
}

/** Due tasks of one integration that are read at a time. */
const readAhead = 50;
/** Tasks that the metric counts. */
const mostCounted = 10_000;
const heldReadEveryMs = 1_000;
const countEveryMs = 5_000;

export async function openDueRevocations({
  store,
  collections,
  world,
}: DueRevocationsOptions): Promise<DueRevocations> {
  const { revocationTasks } = collections;
  let isDirty = true;
  let nextDueMs = 0;
  let countedAt = Number.NEGATIVE_INFINITY;

  const watch = await follow({
    store,
    world,
    spaces: [dueRevocationSpace],
    read: async () => () => {
      isDirty = true;
    },
    onCommit({ changes }) {
      if (changes.some(({ key }) => key.startsWith(`${dueRevocationSpace}\0`))) isDirty = true;
    },
  });

  async function count(): Promise<void> {
    if (performance.now() - countedAt < countEveryMs) return;
    countedAt = performance.now();
    const found = await store.list({ ...under(dueRevocationSpace), limit: mostCounted });
    world.metrics.revocationsWaiting.set(found.length);
  }

  return {
    mayBeDue: () => isDirty || world.now() >= nextDueMs,
    invalidate() {
      isDirty = true;
    },
    async isEmpty() {
      const [wasDirty, wasDueMs] = [isDirty, nextDueMs];
      // Cleared before the read: a commit during the read sets it again.
      isDirty = false;
      nextDueMs = Number.POSITIVE_INFINITY;
      if ((await store.list({ ...under(dueRevocationSpace), limit: 1 })).length === 0) {
        world.metrics.revocationsWaiting.set(0);
        return true;
      }
      isDirty ||= wasDirty;
      nextDueMs = wasDueMs;
      return false;
    },
    async read(isHeld) {
      isDirty = false;
      const nowMs = world.now();
      let next = Number.POSITIVE_INFINITY;
      const keys: (readonly string[])[] = [];
      const { from: first, to } = under(dueRevocationSpace);
      for (let from = first; ; ) {
        const page = await store.list({ from, to, limit: readAhead });
        const [, environment = "", integration] = partsOf(page[0]?.key ?? "");
        if (integration === undefined) break;
        const own = page
          .map(({ key }) => partsOf(key))
          .filter((one) => one[1] === environment && one[2] === integration);
        const due = own.filter((one) => Number(one[3]) <= nowMs);
        const later = own[due.length];
        if (later !== undefined) next = Math.min(next, Number(later[3]));
        if (isHeld(groupOf(environment, integration))) next = Math.min(next, nowMs + heldReadEveryMs);
        else keys.push(...due.map((one) => one.slice(-2)));
        if (due.length === readAhead) next = Math.min(next, nowMs + heldReadEveryMs);
        from = under(dueRevocationSpace, environment, integration).to;
      }
      nextDueMs = next;
      const found = await revocationTasks.getMany(keys);
      await count();
      return found.flatMap((one) => (one === undefined ? [] : [one.value]));
    },
    close: () => watch.close(),
  };
}

/** Tasks of one integration ask one provider with one client. */
export const groupOf = (environment: string, integration: string): string => `${environment}\0${integration}`;
