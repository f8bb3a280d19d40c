import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../../../base/world.ts";
import { type Run, Run_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Store, Watch } from "../../../store/contract.ts";
import { keyOf } from "../../../store/keys.ts";
import type { Logs } from "../../audit/logs.ts";
import type { SyncCollections } from "../sync-collections.ts";
import type { LiveRuns } from "./live-runs.ts";
import { createRunConsole, type RunStep, storedSteps } from "./run-console.ts";
import type { RunAt } from "./run-results.ts";
import type { Runs } from "./runs.ts";

/** Yields a run after each change, and its lines as they come. Ends with the run, after its last change. */
export type RunWatch = (at: RunAt, signal: AbortSignal) => AsyncGenerator<RunStep>;

interface RunWatchOptions {
  readonly store: Store;
  readonly collections: Pick<SyncCollections, "runs">;
  readonly runs: Pick<Runs, "get">;
  readonly logs: Pick<Logs, "find">;
  readonly liveRuns: LiveRuns;
  readonly world: World;
}

/** Pause between two reads: a script may write lines faster than anyone reads. */
const readEveryMs = 100;
/** How often a running run is looked for among those of this process. */
const lookEveryMs = 250;
/** How often the changed records of a run in progress are counted. */
const countEveryMs = 500;
const progressEveryMs = 30_000;

export function createWatchRun({ store, collections, runs, logs, liveRuns, world }: RunWatchOptions): RunWatch {
  /** Returns the stored log of a run that has ended; undefined if it was deleted, or never was. */
  const logOf = async ({ logId }: Run, { environment }: RunAt) =>
    logId === "" ? undefined : logs.find({ environment, id: logId });

  return async function* watchRun(at, signal) {
    const bell = createBell(signal);
    const changes = followKey(store, keyOf(collections.runs.name, at.environment, at.id), bell.ring);
    const console = createRunConsole({ id: at.id, liveRuns, onLine: bell.ring });
    world.metrics.watchers.inc();
    try {
      await changes.begin();
      let run = await runs.get(at);
      let toldMs = performance.now();
      for (let isChanged = true; !signal.aborted; isChanged = await changes.taken()) {
        if (isChanged) run = await runs.get(at);
        if (isOver(run)) {
          yield* console.isLive ? console.steps(run, false) : storedSteps(await logOf(run, at));
          yield { kind: "run", run };
          return;
        }
        const steps = console.steps(run, isChanged);
        yield* steps;
        const nowMs = performance.now();
        const isQuiet = steps.length === 0 && nowMs - toldMs >= progressEveryMs;
        if (isQuiet) yield { kind: "progress", revision: store.status().revision };
        if (isQuiet || steps.length > 0) toldMs = nowMs;
        await sleep(console.isLive ? readEveryMs : 0);
        await bell.rung(waitOf(run, console.isLive));
      }
    } finally {
      console.close();
      changes.close();
      bell.close();
      world.metrics.watchers.dec();
    }
  };
}

const isOver = ({ state }: Run): boolean => state !== Run_State.QUEUED && state !== Run_State.RUNNING;

function waitOf({ state }: Run, isLive: boolean): number {
  if (isLive) return countEveryMs;
  return state === Run_State.RUNNING ? lookEveryMs : progressEveryMs;
}

/** Tells whether a key has changed, and nothing of how. */
function followKey(store: Store, key: string, ring: () => void) {
  let watch: Watch | undefined;
  let isChanged = false;
  let isLost = false;
  const [space = ""] = key.split("\0", 1);

  async function begin(): Promise<void> {
    isLost = false;
    watch = await store.watch(store.status().revision, {
      spaces: [space],
      onCommit({ changes }) {
        if (!changes.some((change) => change.key === key)) return;
        isChanged = true;
        ring();
      },
      onLost() {
        isLost = true;
        ring();
      },
    });
  }

  return {
    begin,
    async taken(): Promise<boolean> {
      const isNew = isChanged || isLost;
      isChanged = false;
      if (isLost) await begin();
      return isNew;
    },
    close: () => watch?.close(),
  };
}

/** Wakes a loop. A ring before the wait is remembered. */
function createBell(signal: AbortSignal) {
  let isRung = false;
  let wake = () => {};
  const ring = () => {
    isRung = true;
    wake();
  };
  signal.addEventListener("abort", ring);
  return {
    ring,
    async rung(mostMs: number): Promise<void> {
      if (!isRung && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, mostMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      isRung = false;
    },
    close: () => signal.removeEventListener("abort", ring),
  };
}
