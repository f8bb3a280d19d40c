/**
 * Batches the work of many connections in one tick of the event loop: first all reads, then all decisions, then all
 * writes. One connection after another, the code of these three steps, and of the kernel below them, would evict each
 * other from the CPU caches. The peers would be woken for one response at a time.
 */
export interface BatchMember {
  /** Handles the bytes that were read. */
  workNow(): void;
  /** Writes the bytes that are ready. */
  writeNow(): void;
}

/** Batching pays from this many reads in a tick; with fewer it only adds delay. */
let threshold = 4;
/** Outside batch mode, one tick in this many reads is measured. */
const measureEvery = 64;

let isBatching = false;
let isEndScheduled = false;
/** Reads of this tick since its end was requested, or all reads since the last measurement. */
let reads = 0;

/** Sets the threshold. With 0 every tick is a batch, however few reads there are; for tests. */
export function setBatchThreshold(count: number): void {
  threshold = count;
  isBatching = count === 0;
}

const toWork = createList((one) => one.workNow());
const toWrite = createList((one) => one.writeNow());

/** Called for each read. Returns whether the read waits for the others of this tick, through `workSoon`. */
export function waitsForOthers(): boolean {
  reads += 1;
  if (!isEndScheduled && (isBatching || reads >= measureEvery)) {
    isEndScheduled = true;
    reads = 0;
    setImmediate(end);
  }
  return isBatching;
}

/** Returns whether this tick has an end at which bytes can be written. */
export const hasTickEnd = (): boolean => isBatching && isEndScheduled;

export const workSoon = toWork.add;
export const writeSoon = toWrite.add;

/**
 * Handles all pending reads and writes now. Call this before deciding by time that no bytes came, and before ending
 * idle connections.
 */
export function finishTick(): void {
  toWork.finish();
  toWrite.finish();
}

function end(): void {
  try {
    finishTick();
  } finally {
    isBatching = reads >= threshold;
    isEndScheduled = false;
    reads = 0;
  }
}

interface BatchList {
  add(one: BatchMember): void;
  finish(): void;
}

/** Creates a list that keeps and reuses one array. */
function createList(finishOne: (one: BatchMember) => void): BatchList {
  const waiting: (BatchMember | undefined)[] = [];
  let first = 0;
  let count = 0;
  return {
    add(one) {
      waiting[count] = one;
      count += 1;
    },
    finish() {
      while (first < count) {
        const one = waiting[first];
        waiting[first] = undefined;
        first += 1;
        if (one !== undefined) finishOne(one);
      }
      first = 0;
      count = 0;
    },
  };
}
