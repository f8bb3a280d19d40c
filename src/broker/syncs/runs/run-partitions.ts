import type { HeldPartition } from "../../partitions/held-partition.ts";
import { ownPartition } from "../../partitions/own-work.ts";
import type { Partitions } from "../../partitions/partitions.ts";
import type { InterruptedRuns } from "./interrupted-runs.ts";

/** The partitions whose runs this process may start: its own, once the runs that the last owner left are ended. */
export interface RunPartitions {
  /** Returns the partition if its runs may start here now. */
  of(number: number): HeldPartition | undefined;
  /** Ends the runs that the last owners of newly taken partitions left behind. */
  takeUp(): Promise<void>;
  /** Looks again for runs of the partition that are `running` in the store only. */
  lookAgain(partition: HeldPartition): void;
  /** A commit under the partition's fence was refused. */
  lost(partition: HeldPartition): void;
}

interface RunPartitionsOptions {
  readonly partitions: Partitions;
  readonly interrupted: InterruptedRuns;
  /** Resolves when every stopped run of this process has ended. */
  readonly stoppedEnded: () => Promise<void>;
  readonly isRunningHere: (id: string) => boolean;
}

export function createRunPartitions(options: RunPartitionsOptions): RunPartitions {
  const { partitions, interrupted, stoppedEnded, isRunningHere } = options;
  /** A partition that was lost and taken again is another object. */
  const takenUp = new Set<HeldPartition>();

  return {
    of(number) {
      const own = ownPartition(partitions, number);
      return own !== undefined && takenUp.has(own) ? own : undefined;
    },
    async takeUp() {
      const all = partitions.all();
      for (const one of takenUp) if (!all.includes(one)) takenUp.delete(one);
      const taken = all.filter((one) => !takenUp.has(one) && one.remainingMs() > 0);
      if (taken.length === 0) return;
      // Runs that were stopped while another replica had the partition are about to end.
      await stoppedEnded();
      const ended = await interrupted.endAll(taken, isRunningHere);
      for (const one of taken) {
        if (ended.has(one)) takenUp.add(one);
        else partitions.lost(one);
      }
    },
    lookAgain: (partition) => void takenUp.delete(partition),
    lost: partitions.lost,
  };
}
