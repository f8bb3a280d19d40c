import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { type Commit, HistoryLost, type Store, type Watch } from "../store/contract.ts";
import type { RecordChange, Records } from "../store/records.ts";

/** One step of a watch: see WatchMarker in the proto for what a watcher makes of it. */
export type FeedStep<T> =
  | { readonly kind: "snapshot_begin" | "snapshot_end" | "resumed" | "progress"; readonly revision: number }
  | { readonly kind: "put"; readonly value: T; readonly revision: number }
  | { readonly kind: "deleted"; readonly parts: readonly string[]; readonly revision: number };

export interface FeedRequest {
  /** The first parts of what is watched. */
  readonly under: readonly string[];
  /** 0: begin with a snapshot. */
  readonly from: number;
  /** Begin with what changes from now on. */
  readonly changesOnly: boolean;
  readonly signal: AbortSignal;
}

/** So much may wait for a reader; one that falls further behind is sent away and resumes. */
const maxWaiting = 10_000;
const snapshotChunk = 500;
const progressEveryMs = 30_000;

/** What there is and then every change to it, in order, until the signal ends it. */
export async function* feed<T>(
  { store, records, world }: { readonly store: Store; readonly records: Records<T>; readonly world: World },
  { under, from, changesOnly, signal }: FeedRequest,
): AsyncGenerator<FeedStep<T>> {
  const waiting: FeedStep<T>[] = [];
  let overrun = false;
  let wake = () => {};
  const watched = ({ parts }: RecordChange<T>) => under.every((part, i) => parts[i] === part);

  function take({ revision, changes }: Commit): void {
    for (const change of changes) {
      const read = records.read(change, revision);
      if (read === undefined || !watched(read)) continue;
      const { value, parts } = read;
      if (waiting.length >= maxWaiting) overrun = true;
      else waiting.push(value === undefined ? { kind: "deleted", parts, revision } : { kind: "put", value, revision });
    }
    wake();
  }

  const start = store.status().revision;
  let resumed = from > 0;
  let watch: Watch;
  try {
    watch = store.watch(resumed ? from : start, take);
  } catch (error) {
    if (!(error instanceof HistoryLost)) throw error;
    resumed = false;
    watch = store.watch(start, take);
  }
  world.metrics.watchers.inc();
  const stop = () => wake();
  signal.addEventListener("abort", stop);
  try {
    if (resumed || changesOnly) {
      yield { kind: "resumed", revision: resumed ? from : start };
    } else {
      yield { kind: "snapshot_begin", revision: start };
      let after: string | undefined;
      for (;;) {
        const chunk = await records.page({ under, after, limit: snapshotChunk });
        for (const { value, revision } of chunk) yield { kind: "put", value, revision };
        after = chunk.at(-1)?.position;
        if (chunk.length < snapshotChunk || signal.aborted) break;
      }
      yield { kind: "snapshot_end", revision: start };
    }
    while (!signal.aborted) {
      if (overrun) {
        world.metrics.watchersDropped.inc();
        throw new Fault("watch_too_slow", "the watcher fell too far behind; resume from the last revision it saw");
      }
      const steps = waiting.splice(0);
      for (const step of steps) {
        if (signal.aborted) return;
        yield step;
      }
      if (waiting.length === 0 && !overrun && !signal.aborted) {
        const woken = await new Promise<boolean>((resolve) => {
          const timer = setTimeout(() => resolve(false), progressEveryMs);
          wake = () => {
            clearTimeout(timer);
            resolve(true);
          };
        });
        if (!woken && waiting.length === 0) yield { kind: "progress", revision: store.status().revision };
      }
    }
  } finally {
    signal.removeEventListener("abort", stop);
    watch.close();
    world.metrics.watchers.dec();
  }
}
