import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LogLine } from "../../../gen/latchkey/v1/log_pb.ts";
import type { Run } from "../../../gen/latchkey/v1/sync_pb.ts";
import { useLoad } from "../../data/load.ts";
import { useWatch, type WatchState } from "../../data/watch.ts";
import { syncs } from "../../state/clients.ts";
import type { CallFault } from "../../state/fault.ts";
import { isOver } from "./words.ts";

/** A line of the console, or a place where lines are missing. */
export type ConsoleLine = LogLine | { readonly missed: bigint };

export interface WatchedRun {
  readonly run: Run | undefined;
  readonly lines: readonly ConsoleLine[];
  /** Another replica executes the run: its lines come at the end. */
  readonly isElsewhere: boolean;
  readonly state: WatchState;
  readonly fault: CallFault | undefined;
  reload(): void;
}

/** The console keeps this many lines. */
const maxLines = 1_000;

/** A run as it goes on, with its lines. */
export function useRun(environment: string, id: string): WatchedRun {
  const run = useSignal<Run | undefined>(undefined);
  const lines = useSignal<readonly ConsoleLine[]>([]);
  const isElsewhere = useSignal(false);
  const isEnded = useSignal(false);
  const loaded = useLoad((signal) => syncs.getRun({ environment, id }, { signal }), [environment, id]);
  useEffect(() => {
    run.value = undefined;
    isEnded.value = false;
  }, [environment, id]);

  const add = (more: readonly ConsoleLine[]) => {
    lines.value = [...lines.peek(), ...more].slice(-maxLines);
  };
  const state = useWatch(
    (signal) => {
      // Each stream begins with the first line again.
      lines.value = [];
      isElsewhere.value = false;
      return syncs.watchRun({ environment, id }, { signal });
    },
    ({ event }) => {
      if (event.case === "run") {
        run.value = event.value;
        // The end of a run is the last event of the stream.
        isEnded.value = isOver(event.value);
      } else if (event.case === "lines") add(event.value.lines);
      else if (event.case === "gap") add([{ missed: event.value.missed }]);
      else if (event.case === "elsewhere") isElsewhere.value = true;
    },
    { isOn: !isEnded.value, dependencies: [environment, id] },
  );
  return {
    run: run.value ?? (loaded.value?.run?.id === id ? loaded.value.run : undefined),
    lines: lines.value,
    isElsewhere: isElsewhere.value && !isEnded.value,
    state,
    fault: loaded.fault,
    reload: loaded.reload,
  };
}
