import type { Job, JobPool } from "../../base/job-pool.ts";
import type { World } from "../../base/world.ts";
import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { after, partsOf } from "../../store/keys.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import { connectionPartition, ownPartition } from "../partitions/own-work.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { WorkUnderWay } from "../partitions/work-under-way.ts";
import { timeOfDueKey } from "../syncs/sync-collections.ts";
import type { ChannelCalls } from "./calls.ts";
import { type ChannelCollections, channelsDue } from "./channel-collections.ts";
import { resourceOf } from "./rules/slot.ts";
import { slotKeyParts } from "./slots.ts";
import type { ChannelTokens } from "./tokens.ts";

/** Finds due channels of this process's partitions, and begins to work on those that the limits allow. */
export interface DueChannels {
  /** Begins channels; returns how many. Reads the store at most once per interval while some are left over. */
  begin(): Promise<number>;
  /** Lets the next `begin` read the store. */
  readAgain(): void;
}

interface DueChannelsOptions {
  readonly store: Store;
  readonly collections: Pick<ChannelCollections, "channels">;
  readonly calls: Pick<ChannelCalls, "tend">;
  /** Knows most channels' connections without a read. */
  readonly tokens: Pick<ChannelTokens, "resourceOwner">;
  readonly partitions: Pick<Partitions, "held" | "lost">;
  readonly underWay: WorkUnderWay;
  readonly pool: JobPool;
  readonly mostRunning: number;
  readonly readEveryMs: number;
  readonly signal: AbortSignal;
  readonly world: World;
}

const pageSize = 500;
/** Due channels that one read of the store looks at in search of some that may begin. */
const mostScanned = 20_000;
const mostWaiting = 1_000;
const longestPauseMs = 86_400_000;

export function createDueChannels(options: DueChannelsOptions): DueChannels {
  const { store, collections, calls, partitions, underWay, pool, mostRunning, readEveryMs, signal, world } = options;
  const { metrics, log } = world;
  /** Integrations whose provider said when to come back, each with that time. */
  const pausedUntil = new Map<string, number>();
  let readAt = Number.NEGATIVE_INFINITY;
  /** Due channels of the last read of the store that could not begin yet. */
  let waiting: StoredChannel[] = [];

  function isPaused(integration: string): boolean {
    const until = pausedUntil.get(integration);
    if (until === undefined) return false;
    // A clock that was set back must not block an integration forever.
    if (until > world.now() && until <= world.now() + longestPauseMs) return true;
    pausedUntil.delete(integration);
    return false;
  }

  async function tend(channel: StoredChannel, job: Job, held: HeldPartition): Promise<void> {
    try {
      const { retryAfterMs } = await calls.tend(resourceOf(channel), { fence: held.fence, signal });
      if (retryAfterMs !== undefined) pausedUntil.set(job.group, world.now() + Math.min(retryAfterMs, longestPauseMs));
    } catch (err) {
      if (signal.aborted) return;
      if (held.isLostBy(err)) return partitions.lost(held);
      pool.pause(job.key);
      const { environment, integration, id: connection } = resourceOf(channel).ref;
      log.error("work on a channel failed; will retry", { environment, integration, connection, err });
    }
  }

  /** False: the limits do not allow the channel's job now, or it is another process's. */
  function beginOne(channel: StoredChannel): boolean {
    const job = jobOf(channel);
    if (!pool.mayBegin(job) || isPaused(job.group)) return false;
    const held = ownPartition(partitions, partitionOfChannel(channel));
    if (held === undefined) return false;
    pool.begin(job, () => underWay.note(held.number, tend(channel, job, held)));
    return true;
  }

  /**
   * Begins channels that were due before and could not begin then. Saves a read of the store each time that a job ends.
   */
  function beginWaiting(): number {
    let begun = 0;
    const left: StoredChannel[] = [];
    for (const [i, channel] of waiting.entries()) {
      if (pool.size >= mostRunning) {
        left.push(...waiting.slice(i));
        break;
      }
      // The running job of a slot does everything that is due for it.
      if (pool.has(jobOf(channel).key)) continue;
      if (beginOne(channel)) begun += 1;
      else left.push(channel);
    }
    waiting = left;
    return begun;
  }

  async function beginStored(): Promise<number> {
    readAt = performance.now();
    const nowMs = world.now();
    let { from, to } = channelsDue(nowMs);
    let begun = 0;
    waiting = [];
    for (let seen = 0; seen < mostScanned && pool.size < mostRunning && !signal.aborted; seen += pageSize) {
      const page = await store.list({ from, to, limit: pageSize });
      if (seen === 0) {
        const overdueMs = page[0] === undefined ? 0 : nowMs - timeOfDueKey(page[0].key);
        metrics.channelsOverdue.set(Math.max(0, overdueMs) / 1_000);
      }
      const keys = page.map(({ key }) => key).filter((key) => mayBeOwn(key, options));
      for (const channel of await collections.channels.getMany(keys.map((key) => partsOf(key).slice(-2)))) {
        if (channel === undefined || partitions.held(partitionOfChannel(channel.value)) === undefined) continue;
        if (beginOne(channel.value)) begun += 1;
        else if (waiting.length < mostWaiting) waiting.push(channel.value);
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) break;
      from = after(last.key);
    }
    return begun;
  }

  return {
    async begin() {
      if (performance.now() - readAt < readEveryMs) {
        const begun = beginWaiting();
        if (begun > 0 || (waiting.length > 0 && pool.size > 0)) return begun;
      }
      return beginStored();
    },
    readAgain() {
      readAt = Number.NEGATIVE_INFINITY;
    },
  };
}

/** False if the channel of a due key is certainly another process's. */
function mayBeOwn(key: string, { tokens, partitions }: Pick<DueChannelsOptions, "tokens" | "partitions">): boolean {
  const [environment = "", id = ""] = partsOf(key).slice(-2);
  const owner = tokens.resourceOwner(environment, id);
  if (owner === undefined) return true;
  return partitions.held(connectionPartition(environment, owner.integration, owner.connection)) !== undefined;
}

function partitionOfChannel(channel: StoredChannel): number {
  const { environment, integration, id } = resourceOf(channel).ref;
  return connectionPartition(environment, integration, id);
}

/** Channels of one slot are one job: the job does everything that is due for the slot. */
function jobOf(channel: StoredChannel): Job {
  const watched = resourceOf(channel);
  const { environment, integration } = watched.ref;
  return { key: slotKeyParts(watched).join("\0"), group: `${environment}\0${integration}` };
}
