import type { Run } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Pager } from "../../data/pager.ts";
import { useWatch, type WatchState } from "../../data/watch.ts";
import { syncs } from "../../state/clients.ts";

interface LiveRunFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly script: string;
}

interface LiveRunList {
  readonly filter: LiveRunFilter;
  readonly pager: Pager<Run>;
  readonly isWanted: (run: Run) => boolean;
  /** Takes a run that is not in the list yet. */
  readonly onNew: (run: Run) => void;
  readonly onChange?: (run: Run) => void;
  readonly isOn?: boolean;
}

/** Keeps a list of runs as they change. */
export function useLiveRuns({ filter, pager, isWanted, onNew, onChange, isOn = true }: LiveRunList): WatchState {
  function take(run: Run): void {
    onChange?.(run);
    const isKnown = pager.items?.some(({ id }) => id === run.id) === true;
    if (isKnown) {
      pager.edit((runs) => runs.map((one) => (one.id === run.id ? run : one)).filter(isWanted));
    } else if (isWanted(run)) onNew(run);
  }
  return useWatch(
    (signal) => syncs.watchRuns(filter, { signal }),
    ({ event }) => {
      if (event.case === "run") take(event.value);
      // Changes were left out.
      if (event.case === "gap") pager.reload();
    },
    { isOn, dependencies: Object.values(filter) },
  );
}
