import { createLoopShare } from "../base/loop-share.ts";
import { createWriteBehind } from "../base/write-behind.ts";

/**
 * Calls of tools that are yet to begin: a row for each run, and each row in its turn, so that a run that calls without
 * end is in nobody's way. They come behind what others wait for, and leave the loop to it.
 */
export interface ToolRows {
  open(): ToolRow;
  /** None begins any more. */
  close(): void;
}

export interface ToolRow {
  add(begin: () => void): void;
  /** Those that wait, now: the run has asked for them, and ends. */
  beginAll(): void;
  /** None of those that wait is wanted any more. */
  clear(): void;
}

/** In a turn of the loop, whoever asks: a request to a provider takes 0.2 ms of it. */
const inTurn = 4;
/** A third of a loop that has nothing else to do; and however much it has, a turn's worth every 5 ms. */
const share = { idleForBusy: 2, owedMs: 3, mostMs: 5 };

export function createToolRows(): ToolRows {
  const waiting: (() => void)[][] = [];
  const pace = createWriteBehind({ begin: beginNext, most: inTurn, few: inTurn, share: createLoopShare(share) });

  function beginNext(): boolean {
    const row = waiting.shift();
    const begin = row?.shift();
    if (row === undefined || begin === undefined) return false;
    if (row.length > 0) waiting.push(row);
    begin();
    return true;
  }

  return {
    open() {
      const row: (() => void)[] = [];
      function leave(): (() => void)[] {
        const at = waiting.indexOf(row);
        if (at !== -1) waiting.splice(at, 1);
        return row.splice(0);
      }
      return {
        add(begin) {
          row.push(begin);
          if (row.length === 1) waiting.push(row);
          pace.soon();
        },
        beginAll() {
          for (const begin of leave()) begin();
        },
        clear: () => void leave(),
      };
    },
    close: () => pace.close(),
  };
}
