import v8 from "node:v8";
import { onBeat } from "../loop/beat.ts";
import { garbageCollector } from "./garbage-collector.ts";

export interface IdleCollectionOptions {
  /** CPU time of the process so far, in microseconds. */
  readonly cpuMicros?: () => number;
  /** Memory that V8 has taken from the system for its heap. */
  readonly takenBytes?: () => number;
  readonly collect?: (() => void) | undefined;
  readonly lookEveryMs?: number;
}

const lookEveryDefaultMs = 5_000;
/** A process that uses less of a core than this has nothing to do. */
const idleShare = 0.03;
/** What a start leaves behind goes soon. */
const firstLooks = 2;
/**
 * Later a minute: a collection takes compiled code with it, and the next requests wait while V8 marks and compiles
 * again. So pauses between two loads cost nothing.
 */
const laterLooks = 12;
/** A collection takes about 1.5 ms for each MiB that is kept: a request that arrives meanwhile waits for it. */
const mostKeptBytes = 96 * 1024 * 1024;
/** Less is not worth a collection. */
const leastGrowthBytes = 8 * 1024 * 1024;

/**
 * Collects garbage once the process has had nothing to do for ten seconds after its start, or for a minute later. V8
 * collects as memory is allocated, so an idle process would keep what its start, or its last load, left behind: 15 of
 * 60 MB. Returns the function that ends it.
 */
export function collectWhenIdle(options: IdleCollectionOptions = {}): () => void {
  const { cpuMicros = cpuOfProcess, takenBytes = heapBytes, lookEveryMs = lookEveryDefaultMs } = options;
  let collect = options.collect;
  let cpu = cpuMicros();
  let at = performance.now();
  let idle = 0;
  let looks = firstLooks;
  /** What V8 kept at the last collection. */
  let keptBytes = 0;

  function look(): void {
    const [now, used] = [performance.now(), cpuMicros()];
    const share = (used - cpu) / 1_000 / (now - at);
    cpu = used;
    at = now;
    idle = share < idleShare ? idle + 1 : 0;
    if (idle < looks) return;
    const taken = takenBytes();
    if (keptBytes > mostKeptBytes || taken - keptBytes < leastGrowthBytes) return;
    collect ??= everythingCollector();
    collect();
    keptBytes = takenBytes();
    looks = laterLooks;
    idle = 0;
  }

  return onBeat(lookEveryMs, look);
}

function cpuOfProcess(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

const heapBytes = (): number => v8.getHeapStatistics().total_heap_size;

function everythingCollector(): () => void {
  const collect = garbageCollector();
  return () => collect?.({ type: "major", flavor: "last-resort" });
}
