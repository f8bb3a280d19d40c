import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import { type Change, StaleWrite, type Store } from "../../store/contract.ts";
import type { HeldPartition } from "./held-partition.ts";
import type { Members } from "./members.ts";
import { ownerChange } from "./owners.ts";
import { allNumbers, type Ownership } from "./ownership.ts";
import { fairOwners } from "./shares.ts";

/** Takes free partitions, and gives back those above this process's share. */
export interface PartitionExchange {
  /** Brings what this process has closer to its share. Returns while work in what it gives back ends. */
  share(): Promise<void>;
  /** Gives everything back, and leaves. */
  giveAll(): Promise<void>;
}

interface ExchangeOptions {
  readonly store: Store;
  readonly id: string;
  readonly isShared: boolean;
  readonly members: Members;
  readonly ownership: Ownership;
  readonly log: Log;
}

/** Limits the wait for work under way in a partition that is given back. */
const giveWithinMs = 10_000;
const aMoment = () => sleep(giveWithinMs, undefined, { ref: false });

export function createExchange({ store, id, isShared, members, ownership, log }: ExchangeOptions): PartitionExchange {
  const { ownerOf, giving } = ownership;

  async function take(wanted: readonly number[]): Promise<void> {
    if (wanted.length === 0) return;
    const previous = new Set(wanted.map((number) => ownerOf(number).member));
    previous.delete("");
    const changes = wanted.map((number) => ownerChange(number, id, ownerOf(number)));
    // If this is stale, another process was faster, or one was alive after all: the next scan decides again.
    await unlessStale(async () => {
      const revision = await store.commit(changes, members.unchanged(previous));
      for (const number of wanted) ownership.note(number, { member: id, revision });
    });
  }

  async function give(partition: HeldPartition): Promise<void> {
    const { number } = partition;
    const before = ownerOf(number);
    try {
      await Promise.race([ownership.drop(partition), aMoment()]);
      await unlessStale(async () => {
        const revision = await store.commit([ownerChange(number, "", before)]);
        ownership.note(number, { member: "", revision });
      });
    } catch (err) {
      // The next scan holds it again.
      log.warn("could not give work to another replica; will retry", { err });
    } finally {
      giving.delete(number);
    }
  }

  /** Deletes the records of dead members that own nothing any more. One member does it. */
  async function forgetDead(living: readonly string[]): Promise<void> {
    if (living[0] !== id) return;
    for (const dead of members.dead()) {
      if (allNumbers.some((number) => ownerOf(number).member === dead)) continue;
      await unlessStale(() => store.commit([members.forgetting(dead)]));
    }
  }

  return {
    async share() {
      const living = members.living();
      const current = allNumbers.map((number) => {
        const { member } = ownerOf(number);
        return living.includes(member) ? member : undefined;
      });
      const fair = fairOwners(current, living);
      for (const partition of ownership.all()) {
        if (fair[partition.number] !== id) giving.set(partition.number, give(partition));
      }
      await take(allNumbers.filter((number) => fair[number] === id && current[number] === undefined));
      await forgetDead(living);
    },
    async giveAll() {
      const given = ownership.all();
      const changes = given.map(({ number }): Change => ownerChange(number, "", ownerOf(number)));
      await Promise.race([Promise.all(given.map(ownership.drop)), aMoment()]);
      await Promise.all(giving.values());
      if (!isShared) return;
      try {
        await store.commit([...changes, ...members.leaving()]);
      } catch {
        // Another process has one of them already: the others are given one by one. Without a store, the term ends.
        await Promise.allSettled([...changes, ...members.leaving()].map((change) => store.commit([change])));
      }
    },
  };
}

async function unlessStale(commit: () => Promise<unknown>): Promise<void> {
  try {
    await commit();
  } catch (error) {
    if (!(error instanceof StaleWrite)) throw error;
  }
}
