import type { RecordCounts } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { LogWriter } from "../../audit/logs.ts";

/** A run that this process executes, for those who watch it. */
export interface LiveRun {
  readonly log: Pick<LogWriter, "linesFrom" | "onLine">;
  /** Changed records so far, by model. */
  readonly counts: ReadonlyMap<string, RecordCounts>;
  /** Secrets that the run has used, and that its log may not know yet. */
  readonly secrets: () => Iterable<string>;
}

/** The runs that this process executes, by their ids. */
export interface LiveRuns {
  find(id: string): LiveRun | undefined;
  /** Returns a function that removes the run when it has ended. */
  add(id: string, run: LiveRun): () => void;
}

export function createLiveRuns(): LiveRuns {
  const runs = new Map<string, LiveRun>();
  return {
    find: (id) => runs.get(id),
    add(id, run) {
      runs.set(id, run);
      return () => runs.delete(id);
    },
  };
}
