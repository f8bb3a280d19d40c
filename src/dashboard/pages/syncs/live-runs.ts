import type { Run } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Pager } from "../../data/pager.ts";
import { isBeginning, useWatch, type WatchState } from "../../data/watch.ts";
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
  /** Reads the newest runs: those that changed before the live view began. */
  readonly readFirst: () => Promise<{ readonly items: readonly Run[] }>;
  readonly isOn?: boolean;
}

/** Keeps a list of runs as they change. */
export function useLiveRuns({
  filter,
  pager,
  isWanted,
  onNew,
  onChange,
  readFirst,
  isOn = true,
}: LiveRunList): WatchState {
  function take(run: Run): void {
    onChange?.(run);
    const isKnown = pager.items?.some(({ id }) => id === run.id) === true;
    if (isKnown) {
      pager.edit((runs) => runs.map((one) => (one.id === run.id ? run : one)).filter(isWanted));
    } else if (isWanted(run)) onNew(run);
  }
  async function catchUp(): Promise<void> {
    // The list itself is on its way, and has everything.
    if (pager.items === undefined) return;
    for (const run of (await readFirst()).items.toReversed()) take(run);
  }
  return useWatch(
    (signal) => syncs.watchRuns(filter, { signal }),
    ({ event }) => {
      if (event.case === "run") take(event.value);
      // Changes were left out.
      if (event.case === "gap") pager.reload();
      if (isBeginning(event)) void catchUp();
    },
    { isOn, dependencies: Object.values(filter) },
  );
}
