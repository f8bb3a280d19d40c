import { StaleWrite } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";

/** A partition whose work this process does. */
export interface HeldPartition {
  readonly number: number;
  /** Condition for every commit of this work: refused once another process has the partition. */
  readonly fence: { readonly key: string; readonly expect: number };
  /** Reports whether this error, from a commit of this work, means that another process has the partition. */
  isLostBy(error: unknown): boolean;
  /** Time for which the partition certainly belongs to this process; a process that was paused gets 0 when it resumes. */
  remainingMs(): number;
  /** The previous owner was silent for too long: it may not know yet, and may still work. */
  readonly ranOut: boolean;
}

export const partitionSpace = "partition";

/** The key of a partition's owner. */
export const ownerKey = (number: number): string => keyOf(partitionSpace, String(number).padStart(2, "0"));

interface HeldOptions {
  readonly number: number;
  /** Revision at which this process became the owner. */
  readonly revision: number;
  readonly ranOut: boolean;
  readonly remainingMs: () => number;
}

export function heldPartition({ number, revision, ranOut, remainingMs }: HeldOptions): HeldPartition {
  const key = ownerKey(number);
  return {
    number,
    fence: { key, expect: revision },
    isLostBy: (error) => error instanceof StaleWrite && error.key === key,
    remainingMs,
    ranOut,
  };
}
