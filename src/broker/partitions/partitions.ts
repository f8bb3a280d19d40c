import { randomUUID } from "node:crypto";
import { createScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import type { Commit, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import { createExchange } from "./exchange.ts";
import { type HeldPartition, partitionSpace } from "./held-partition.ts";
import { createMembers, type MemberRecord, type Members, memberSpace, onlyMember } from "./members.ts";
import { partitionIn, readOwner } from "./owners.ts";
import { createOwnership, type Ownership, type PartitionListener } from "./ownership.ts";

/**
 * Divides background work among the replicas: each partition belongs to one process, and each process to an even share
 * of them. The partitions of a process that was killed go to others within seconds.
 */
export interface Partitions {
  /** How long a silent process counts as alive. */
  readonly termMs: number;
  /**
   * Returns the partition if it is this process's, as far as it knows. Begin work only while it has time remaining; a
   * result may be committed under its fence at any time.
   */
  held(number: number): HeldPartition | undefined;
  all(): readonly HeldPartition[];
  listen(listener: PartitionListener): void;
  /** A commit under this partition's fence was refused: another process has it. Ignored for an earlier holding. */
  lost(partition: HeldPartition): void;
  /** Takes this process's share. Resolves after the first try. */
  start(): Promise<void>;
  /** Gives all partitions to the others, for good. */
  retire(): Promise<void>;
  close(): Promise<void>;
}

interface PartitionsOptions {
  readonly store: Store;
  /** Other processes may have the store open as well. */
  readonly isShared: boolean;
  /** How long a silent process counts as alive. */
  readonly termMs?: number | undefined;
  readonly world: World;
}

const scanEveryMs = 1_000;
/** Scans of a short term: a renewal may come late by one. */
const scansPerTerm = 4;
const defaultTermMs = 10_000;
/** The ID of a process that is alone: the same after a restart, which then need not write anything. */
const onlyId = "only";

export async function openPartitions(options: PartitionsOptions): Promise<Partitions> {
  const { store, isShared, termMs = defaultTermMs, world } = options;
  const id = isShared ? randomUUID() : onlyId;
  const members = isShared ? createMembers({ store, id, termMs }) : onlyMember(id);
  const ownership = createOwnership({ id, isShared, remainingMs: members.remainingMs, world });
  const exchange = createExchange({ store, id, isShared, members, ownership, log: world.log });
  let isRetired = false;

  async function scan(): Promise<number> {
    if (members.isRenewalDue) await members.renew();
    // Without a term others may take everything at any time: take nothing from them.
    if (members.remainingMs() === 0) return 0;
    await members.findDead();
    if (!ownership.isActive) return 0;
    ownership.settle();
    await exchange.share();
    return 0;
  }

  const loop = createScanLoop({
    everyMs: Math.min(scanEveryMs, termMs / scansPerTerm),
    scan,
    onFailure(err) {
      if (!ownership.isActive) return;
      world.log.warn("could not take or keep this replica's share of the work; will retry", { err });
    },
  });
  const watch = await followOwners({ store, world, members, ownership, onNews: loop.wake });

  async function end(): Promise<void> {
    isRetired = true;
    await loop.stop();
  }

  return {
    termMs,
    held: ownership.held,
    all: ownership.all,
    listen: ownership.listen,
    lost: ownership.forget,
    async start() {
      if (ownership.isActive || isRetired) return;
      ownership.isActive = true;
      await loop.scanNow();
      loop.start();
    },
    async retire() {
      if (isRetired) return;
      await end();
      await exchange.giveAll();
      ownership.isActive = false;
    },
    async close() {
      await end();
      ownership.isActive = false;
      watch.close();
    },
  };
}

interface OwnerFollowing {
  readonly store: Store;
  readonly world: World;
  readonly members: Members;
  readonly ownership: Ownership;
  /** A member came or went, or a partition has another owner. */
  readonly onNews: () => void;
}

function followOwners({ store, world, members, ownership, onNews }: OwnerFollowing) {
  const everyOne = (space: string) => store.list({ ...under(space), limit: Number.MAX_SAFE_INTEGER });

  function onCommit({ changes, revision }: Commit): void {
    let isNews = false;
    for (const { key, value } of changes) {
      const number = partitionIn(key);
      if (number !== undefined) {
        if (ownership.note(number, readOwner({ value, revision }))) isNews = true;
        continue;
      }
      const [space, member] = partsOf(key);
      if (space !== memberSpace || member === undefined) continue;
      if (members.note(member, value && { value, revision })) isNews = true;
    }
    if (isNews) onNews();
  }

  return follow({
    store,
    world,
    spaces: [memberSpace, partitionSpace],
    async read() {
      const [ofMembers, ofOwners] = [await everyOne(memberSpace), await everyOne(partitionSpace)];
      const records = ofMembers.map((entry): [string, MemberRecord] => [partsOf(entry.key)[1] ?? "", entry]);
      const owners = ofOwners.flatMap((entry) => {
        const number = partitionIn(entry.key);
        return number === undefined ? [] : [[number, readOwner(entry)] as const];
      });
      return () => {
        members.replace(new Map(records));
        ownership.replace(new Map(owners));
      };
    },
    onCommit,
  });
}
