import type { HeldPartition } from "./held-partition.ts";
import { partitionCount, partitionOf } from "./partition-of.ts";
import type { Partitions } from "./partitions.ts";

/** Returns the partition of the connection with this key. Its work belongs to one process, so it stays in order. */
export const connectionPartition = (environment: string, integration: string, connection: string): number =>
  partitionOf(`${environment}\0${integration}\0${connection}`);

/** Returns a partition if this process may begin work of it now. */
export function ownPartition({ held }: Pick<Partitions, "held">, number: number): HeldPartition | undefined {
  const found = held(number);
  return found !== undefined && found.remainingMs() > 0 ? found : undefined;
}

/** Returns the partition that stands for work of one process for all, if it is this process's. */
export const soleWork = (partitions: Pick<Partitions, "held">, name: string): HeldPartition | undefined =>
  ownPartition(partitions, partitionOf(name));

/** Returns this process's part of a limit for all replicas together: with many replicas, one each. */
export const shareOf = ({ all }: Pick<Partitions, "all">, limit: number): number =>
  Math.max(1, Math.round((limit * all().length) / partitionCount));
