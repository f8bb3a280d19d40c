/**
 * What comes over many connections in one turn of the event loop is worked on together: all of it is read, then
 * judged, then written. One connection after the other, the code of all three, and of the kernel below, pushes each
 * other out of the processor's caches, and whoever waits at the other end is woken for one answer at a time.
 */
export interface BatchMember {
  /** Works on what it has read. */
  workNow(): void;
  /** Writes what it has ready. */
  writeNow(): void;
}

/** With so many others in a turn there is something to gain; with fewer it only comes later. */
let crowd = 4;
/** While there is no crowd, one turn is looked at for so many reads. */
const looksEvery = 64;

let isCrowded = false;
let isEndDue = false;
/** Reads of this turn since its end was asked for, or of all since the last look. */
let came = 0;

/** With 0 each turn is a crowd's, however few come: so tests see what happens then, without one. */
export function setCrowd(count: number): void {
  crowd = count;
  isCrowded = count === 0;
}

const toWork = createList((one) => one.workNow());
const toWrite = createList((one) => one.writeNow());

/** Asked for each read: whether it is to wait for the others of this turn, by `workSoon`. */
export function waitsForOthers(): boolean {
  came += 1;
  if (!isEndDue && (isCrowded || came >= looksEvery)) {
    isEndDue = true;
    came = 0;
    setImmediate(end);
  }
  return isCrowded;
}

/** Whether this turn has an end at which something can be written. */
export const hasEnd = (): boolean => isCrowded && isEndDue;

export const workSoon = toWork.add;
export const writeSoon = toWrite.add;

/** Whoever judges by time that nothing has come, or ends what is idle, has all looked at that has come. */
export function finishTurn(): void {
  toWork.finish();
  toWrite.finish();
}

function end(): void {
  try {
    finishTurn();
  } finally {
    isCrowded = came >= crowd;
    isEndDue = false;
    came = 0;
  }
}

interface BatchList {
  add(one: BatchMember): void;
  finish(): void;
}

/** In one array, which is kept. */
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
