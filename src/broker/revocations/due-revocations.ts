import type { World } from "../../base/world.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { after, partsOf, under } from "../../store/keys.ts";
import { partitionOf } from "../partitions/partition-of.ts";
import type { Partitions } from "../partitions/partitions.ts";
import { dueRevocationSpace, type RevocationCollections } from "./revocation-collections.ts";

/** The due tasks of this process's partitions, read only when something may have changed or become due. */
export interface DueRevocations {
  mayBeDue(): boolean;
  /** Forces the next read. */
  invalidate(): void;
  /** Sets who is called when a change was seen that may make something due. */
  onDue(listener: () => void): void;
  /** Reads whether there is no task at all. */
  isEmpty(): Promise<boolean>;
  /** Reads the first due tasks of each integration. Passes over an integration that is held. */
  read(isHeld: (group: string) => boolean): Promise<readonly RevocationTask[]>;
  close(): void;
}

interface DueRevocationsOptions {
  readonly store: Store;
  readonly collections: RevocationCollections;
  readonly partitions: Pick<Partitions, "held">;
  readonly world: World;
}

/** Due tasks of one integration that are read at a time. */
const readAhead = 50;
const pageSize = 200;
/** Tasks of one integration that a read examines: those of other processes are passed over. */
const mostExamined = 2_000;
/** Tasks that the metric counts. */
const mostCounted = 10_000;
const heldReadEveryMs = 1_000;
const countEveryMs = 5_000;

export async function openDueRevocations({
  store,
  collections,
  partitions,
  world,
}: DueRevocationsOptions): Promise<DueRevocations> {
  const { revocationTasks } = collections;
  const isOwn = ([, , , , environment = "", id = ""]: readonly string[]) =>
    partitions.held(taskPartition(environment, id)) !== undefined;
  let isDirty = true;
  let onDue = () => {};
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
      if (!changes.some(({ key }) => key.startsWith(`${dueRevocationSpace}\0`) && isOwn(partsOf(key)))) return;
      isDirty = true;
      onDue();
    },
  });

  async function count(): Promise<void> {
    if (performance.now() - countedAt < countEveryMs) return;
    countedAt = performance.now();
    const found = await store.list({ ...under(dueRevocationSpace), limit: mostCounted });
    world.metrics.revocationsWaiting.set(found.filter(({ key }) => isOwn(partsOf(key))).length);
  }

  /** Returns the first due tasks of an integration that are this process's, and when the next one is due. */
  async function dueOf(environment: string, integration: string, nowMs: number): Promise<DueGroup> {
    const due: (readonly string[])[] = [];
    let { from, to } = under(dueRevocationSpace, environment, integration);
    for (let seen = 0; seen < mostExamined && due.length < readAhead; seen += pageSize) {
      const page = await store.list({ from, to, limit: pageSize });
      for (const parts of page.map(({ key }) => partsOf(key))) {
        if (Number(parts[3]) > nowMs) return { due, nextMs: Number(parts[3]) };
        if (isOwn(parts) && due.length < readAhead) due.push(parts.slice(-2));
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) return { due, nextMs: Number.POSITIVE_INFINITY };
      from = after(last.key);
    }
    return { due, nextMs: nowMs + heldReadEveryMs };
  }

  return {
    mayBeDue: () => isDirty || world.now() >= nextDueMs,
    invalidate() {
      isDirty = true;
    },
    onDue(listener) {
      onDue = listener;
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
        const [one] = await store.list({ from, to, limit: 1 });
        const [, environment = "", integration] = partsOf(one?.key ?? "");
        if (integration === undefined) break;
        const { due, nextMs } = await dueOf(environment, integration, nowMs);
        next = Math.min(next, nextMs);
        if (isHeld(groupOf(environment, integration))) next = Math.min(next, nowMs + heldReadEveryMs);
        else keys.push(...due);
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

interface DueGroup {
  readonly due: readonly (readonly string[])[];
  readonly nextMs: number;
}

/** Tasks are independent of each other: they are divided by their ids, which their keys end in. */
export const taskPartition = (environment: string, id: string): number => partitionOf(`${environment}\0${id}`);

/** Tasks of one integration ask one provider with one client. */
export const groupOf = (environment: string, integration: string): string => `${environment}\0${integration}`;
