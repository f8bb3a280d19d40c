import type { Partitions } from "./partitions.ts";

/** Work under way by partition: a partition is given back once its work has ended. */
export interface WorkUnderWay {
  /** Notes work until it has ended, and returns it. */
  note<T>(partition: number, work: Promise<T>): Promise<T>;
  hasSome(partition: number): boolean;
  /** Resolves when all work of the partition that runs now has ended. */
  endedOf(partition: number): Promise<unknown>;
}

export function createWorkUnderWay(): WorkUnderWay {
  const byPartition = new Map<number, Set<Promise<unknown>>>();
  return {
    note(partition, work) {
      const all = byPartition.get(partition) ?? new Set();
      byPartition.set(partition, all.add(work));
      const end = () => void all.delete(work);
      work.then(end, end);
      return work;
    },
    hasSome: (partition) => (byPartition.get(partition)?.size ?? 0) > 0,
    endedOf: (partition) => Promise.allSettled(byPartition.get(partition) ?? []),
  };
}

/** Calls `onTaken` for each partition that this process gets, and gives partitions back once their work has ended. */
export function shareWork({ listen }: Pick<Partitions, "listen">, onTaken: () => void): WorkUnderWay {
  const underWay = createWorkUnderWay();
  listen({ onTaken, onLost: ({ number }) => underWay.endedOf(number) });
  return underWay;
}
