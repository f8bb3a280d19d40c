import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
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

interface GivenPartition {
  readonly number: number;
  readonly change: Change;
}

/** Limits the wait for work under way in a partition that is given back. */
const giveWithinMs = 10_000;
/** Limits the time for which a partition stays because of long work. */
const longWorkWithinMs = 10 * 60_000;
const aMoment = () => sleep(giveWithinMs, undefined, { ref: false });

export function createExchange({ store, id, isShared, members, ownership, log }: ExchangeOptions): PartitionExchange {
  const { ownerOf, giving } = ownership;
  /** Since when this process has more than its share. */
  let surplusSince: number | undefined;

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

  /** Chooses partitions to give back: the others take whichever are free. Those with long work stay for a while. */
  function choose(count: number): readonly HeldPartition[] {
    if (count === 0) {
      surplusSince = undefined;
      return [];
    }
    surplusSince ??= performance.now();
    const all = ownership.all();
    const free = all.filter((one) => !ownership.hasLongWork(one));
    if (free.length >= count || performance.now() - surplusSince < longWorkWithinMs) return free.slice(0, count);
    return [...free, ...all.filter(ownership.hasLongWork)].slice(0, count);
  }

  async function handOver(given: readonly GivenPartition[]): Promise<void> {
    const revision = await store.commit(given.map(({ change }) => change));
    for (const { number } of given) ownership.note(number, { member: "", revision });
  }

  /** Hands over partitions without work under way; those of one turn share a commit. */
  const handOverSoon = inBatches<GivenPartition>(async (given) => {
    try {
      await handOver(given);
    } catch (error) {
      if (!(error instanceof StaleWrite)) throw error;
      // Another process has one of them already: hand over the others one by one.
      await Promise.all(given.map((one) => unlessStale(() => handOver([one]))));
    }
  });

  async function give(partition: HeldPartition): Promise<void> {
    const { number } = partition;
    const change = ownerChange(number, "", ownerOf(number));
    try {
      await Promise.race([ownership.drop(partition), aMoment()]);
      await handOverSoon({ number, change });
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
      const surplus = ownership.all().filter(({ number }) => fair[number] !== id).length;
      for (const partition of choose(surplus)) giving.set(partition.number, give(partition));
      await take(allNumbers.filter((number) => fair[number] === id && current[number] === undefined));
      await forgetDead(living);
    },
    async giveAll() {
      const given = ownership.all();
      if (!isShared) {
        await Promise.race([Promise.all(given.map(ownership.drop)), aMoment()]);
        return;
      }
      for (const partition of given) giving.set(partition.number, give(partition));
      await Promise.all(giving.values());
      // Without a store, the term ends by itself.
      await store.commit(members.leaving()).catch(() => {});
    },
  };
}

/** Collects what is added within a turn of the event loop. */
function inBatches<T>(run: (all: readonly T[]) => Promise<void>): (one: T) => Promise<void> {
  let batch: { readonly all: T[]; readonly done: Promise<void> } | undefined;
  return (one) => {
    if (batch === undefined) {
      const all: T[] = [];
      const done = nextTurn().then(() => {
        batch = undefined;
        return run(all);
      });
      batch = { all, done };
    }
    batch.all.push(one);
    return batch.done;
  };
}

async function unlessStale(commit: () => Promise<unknown>): Promise<void> {
  try {
    await commit();
  } catch (error) {
    if (!(error instanceof StaleWrite)) throw error;
  }
}
