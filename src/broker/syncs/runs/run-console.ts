import type { Log, LogLine } from "../../../gen/latchkey/v1/log_pb.ts";
import { type Run, Run_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { LiveRun, LiveRuns } from "./live-runs.ts";

/** A step of a watched run. */
export type RunStep =
  | { readonly kind: "run"; readonly run: Run }
  | { readonly kind: "lines"; readonly lines: readonly LogLine[] }
  | { readonly kind: "gap"; readonly missed: number }
  /** Another replica executes the run. */
  | { readonly kind: "elsewhere" }
  | { readonly kind: "progress"; readonly revision: number };

/** What a watcher of one run has seen. Keeps no lines: it reads those that the log still has. */
export interface RunConsole {
  /** True once this process was seen to execute the run. */
  readonly isLive: boolean;
  /** Returns what is new, if the run changed, or of the run in progress. */
  steps(run: Run, isChanged: boolean): RunStep[];
  close(): void;
}

interface RunConsoleOptions {
  readonly id: string;
  readonly liveRuns: Pick<LiveRuns, "find">;
  /** Called after each new line. */
  readonly onLine: () => void;
}

/** A run that this process has not started in this time is executed by another one. */
const elsewhereAfterMs = 1_000;

export function createRunConsole({ id, liveRuns, onLine }: RunConsoleOptions): RunConsole {
  let live: LiveRun | undefined;
  let endListening = () => {};
  let position = 0;
  let counts = "";
  let runningSinceMs: number | undefined;
  let isToldElsewhere = false;

  function find(): void {
    if (live !== undefined) return;
    live = liveRuns.find(id);
    if (live !== undefined) endListening = live.log.onLine(onLine);
  }

  /** Returns the new lines of a run of this process. */
  function newLines(of: LiveRun): RunStep[] {
    const steps: RunStep[] = [];
    for (;;) {
      const { lines, missed, next } = of.log.linesFrom(position, of.secrets());
      if (missed > 0) steps.push({ kind: "gap", missed });
      if (lines.length > 0) steps.push({ kind: "lines", lines });
      if (next === position) return steps;
      position = next;
    }
  }

  function isElsewhere({ state }: Run): boolean {
    if (isToldElsewhere || state !== Run_State.RUNNING) return false;
    runningSinceMs ??= performance.now();
    isToldElsewhere = performance.now() - runningSinceMs >= elsewhereAfterMs;
    return isToldElsewhere;
  }

  return {
    get isLive() {
      return live !== undefined;
    },
    steps(run, isChanged) {
      find();
      if (live === undefined) {
        return [
          ...(isChanged ? [{ kind: "run" as const, run }] : []),
          ...(isElsewhere(run) ? [{ kind: "elsewhere" as const }] : []),
        ];
      }
      const countsNow = [...live.counts].map(([model, of]) => [model, of.added, of.updated, of.deleted]).join();
      const isNew = isChanged || countsNow !== counts;
      counts = countsNow;
      const shown = { ...run, counts: Object.fromEntries(live.counts) };
      return [...(isNew ? [{ kind: "run" as const, run: shown }] : []), ...newLines(live)];
    },
    close: () => endListening(),
  };
}

/** Returns the lines of a run that was not seen in progress. */
export function storedSteps(log: Log | undefined): RunStep[] {
  if (log === undefined) return [];
  const { lines, truncated } = log;
  return [
    ...(truncated ? [{ kind: "gap" as const, missed: 0 }] : []),
    ...(lines.length > 0 ? [{ kind: "lines" as const, lines }] : []),
  ];
}
