import type { World } from "../../base/world.ts";
import { type HeldPartition, heldPartition } from "./held-partition.ts";
import { nobody, type StoredOwner } from "./owners.ts";
import { partitionCount } from "./partition-of.ts";

/** The owners of all partitions, as far as this process knows, and what it holds itself. */
export interface Ownership {
  ownerOf(number: number): StoredOwner;
  held(number: number): HeldPartition | undefined;
  all(): readonly HeldPartition[];
  listen(listener: PartitionListener): void;
  /** Notes a stored owner; older ones are ignored. Returns whether it was news. */
  note(number: number, owner: StoredOwner): boolean;
  /** Replaces all owners. */
  replace(owners: ReadonlyMap<number, StoredOwner>): void;
  hasLongWork(partition: HeldPartition): boolean;
  /** Stops holding a partition. The promise resolves when its work has ended. */
  drop(partition: HeldPartition): Promise<unknown>;
  /** Stops holding a partition that another process has already. */
  forget(partition: HeldPartition): void;
  /** Holds what the stored owners say, and nothing else. */
  settle(): void;
  /** A partition that is given back is held no more, although it is this process's until the store says otherwise. */
  readonly giving: Map<number, Promise<void>>;
  /** Nothing is held before this is true, or after. */
  isActive: boolean;
}

export interface PartitionListener {
  onTaken(partition: HeldPartition): void;
  /** Reports work that would be lost if another process got the partition now, such as a run of minutes. */
  hasLongWork?(number: number): boolean;
  /**
   * Begin no more work of this partition. If it is given back, the next owner waits a moment for the returned promise:
   * until work under way has ended, and its result is committed.
   */
  onLost(partition: HeldPartition): Promise<unknown> | undefined;
}

interface OwnershipOptions {
  /** ID of this process. */
  readonly id: string;
  readonly isShared: boolean;
  readonly remainingMs: () => number;
  readonly world: World;
}

/** The numbers of all partitions. */
export const allNumbers: readonly number[] = Array.from({ length: partitionCount }, (_, number) => number);

export function createOwnership({ id, isShared, remainingMs, world }: OwnershipOptions): Ownership {
  const owners: StoredOwner[] = allNumbers.map(() => nobody);
  const held: (HeldPartition | undefined)[] = allNumbers.map(() => undefined);
  const listeners: PartitionListener[] = [];
  const giving = new Map<number, Promise<void>>();
  let isActive = false;

  const all = (): HeldPartition[] => held.filter((one) => one !== undefined);
  const ownerOf = (number: number): StoredOwner => owners[number] ?? nobody;
  const report = () => world.metrics.partitions.set(all().length);

  function drop(partition: HeldPartition): Promise<unknown> {
    held[partition.number] = undefined;
    report();
    return Promise.all(listeners.map(({ onLost }) => onLost(partition)));
  }

  function settle(number: number, ranOut = false): void {
    const { member, revision } = ownerOf(number);
    const before = held[number];
    const isOurs = member === id && isActive && !giving.has(number);
    if (before !== undefined && !(isOurs && before.fence.expect === revision)) void drop(before);
    if (!isOurs || held[number] !== undefined) return;
    const partition = heldPartition({ number, revision, ranOut, remainingMs });
    held[number] = partition;
    report();
    for (const { onTaken } of listeners) onTaken(partition);
  }

  return {
    ownerOf,
    held: (number) => held[number],
    all,
    listen: (listener) => void listeners.push(listener),
    note(number, owner) {
      const before = ownerOf(number);
      if (owner.revision <= before.revision) return false;
      owners[number] = owner;
      settle(number, isShared && before.member !== "" && before.member !== id);
      return true;
    },
    replace(found) {
      for (const number of allNumbers) {
        owners[number] = found.get(number) ?? nobody;
        settle(number);
      }
    },
    hasLongWork: ({ number }) => listeners.some((one) => one.hasLongWork?.(number) === true),
    drop,
    forget(partition) {
      const { number } = partition;
      if (held[number] !== partition) return;
      owners[number] = { ...ownerOf(number), member: "" };
      void drop(partition);
    },
    settle() {
      for (const number of allNumbers) settle(number);
    },
    giving,
    get isActive() {
      return isActive;
    },
    set isActive(now) {
      isActive = now;
    },
  };
}
