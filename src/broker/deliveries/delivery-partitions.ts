import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { noteKeptLease } from "../../store/kept-leases.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import { partitionCount } from "../partitions/partition-of.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { QueuedForward } from "./outbox/queued-forward.ts";

/** The partitions whose forwards this replica delivers. */
export interface DeliveryPartitions {
  /** Returns whether this replica queues a forward: its partition is this replica's, and a wait after a takeover over. */
  isOurs(waiting: Pick<QueuedForward, "partition">): boolean;
  /** Returns whether a delivery may start now. */
  allowsDelivery(): boolean;
  /** Returns the partition of a forward, as far as this replica knows; its time may have run out since. */
  held(waiting: Pick<QueuedForward, "partition">): HeldPartition | undefined;
  /** A commit under this partition was refused: another replica has it. Ignored for an earlier holding. */
  lost(refused: HeldPartition): void;
  /** Returns this replica's part of a limit that holds for all replicas together. */
  shareOf(limit: number): number;
  begun(waiting: Pick<QueuedForward, "partition">): void;
  ended(waiting: Pick<QueuedForward, "partition">): void;
  /** Says in the metrics whether this replica delivers. */
  report(): void;
}

interface DeliveryPartitionsOptions {
  readonly store: Store;
  readonly partitions: Partitions;
  /** Called once for all partitions that were gained or lost in one turn. */
  readonly onChange: (gained: ReadonlySet<number>) => void;
  readonly world: World;
}

/**
 * Share of a term that a replica waits after it takes over from one that was silent. After a store outage, the previous
 * owner uses this time to record what it delivered in the meantime, which would otherwise be delivered twice.
 */
const handOverShare = 0.3;

export function createDeliveryPartitions(options: DeliveryPartitionsOptions): DeliveryPartitions {
  const { store, partitions, onChange, world } = options;
  const ready = new Map<number, HeldPartition>();
  /** Numbers of running attempts, and promises for when none is left: a partition may be lost twice during one. */
  const running = new Map<number, number>();
  const waiting = new Map<number, PromiseWithResolvers<void>>();
  let gained: Set<number> | undefined;

  function allowsDelivery(): boolean {
    // All partitions of a process have the same term.
    for (const partition of ready.values()) return partition.remainingMs() > 0;
    return false;
  }

  function changeSoon(): Set<number> {
    if (gained !== undefined) return gained;
    const all = new Set<number>();
    gained = all;
    queueMicrotask(() => {
      gained = undefined;
      onChange(all);
    });
    return all;
  }

  function deliverFor(partition: HeldPartition): void {
    if (partitions.held(partition.number) !== partition) return;
    ready.set(partition.number, partition);
    changeSoon().add(partition.number);
  }

  partitions.listen({
    onTaken(partition) {
      if (partition.ranOut) setTimeout(deliverFor, partitions.termMs * handOverShare, partition).unref();
      else deliverFor(partition);
    },
    onLost({ number }) {
      if (ready.delete(number)) changeSoon().delete(number);
      if (!running.has(number)) return undefined;
      const idle = waiting.get(number) ?? Promise.withResolvers<void>();
      waiting.set(number, idle);
      return idle.promise;
    },
  });
  for (const partition of partitions.all()) deliverFor(partition);
  noteKeptLease(store, "deliveries", allowsDelivery);

  return {
    isOurs: ({ partition }) => ready.has(partition),
    allowsDelivery,
    held: ({ partition }) => partitions.held(partition),
    lost: (refused) => partitions.lost(refused),
    shareOf: (limit) => Math.max(1, Math.floor((limit * ready.size) / partitionCount)),
    begun({ partition }) {
      running.set(partition, (running.get(partition) ?? 0) + 1);
    },
    ended({ partition }) {
      const left = (running.get(partition) ?? 0) - 1;
      if (left > 0) {
        running.set(partition, left);
        return;
      }
      running.delete(partition);
      waiting.get(partition)?.resolve();
      waiting.delete(partition);
    },
    report: () => world.metrics.delivering.set(allowsDelivery() ? 1 : 0),
  };
}
