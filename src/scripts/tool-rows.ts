import { createLoopShare } from "../base/loop-share.ts";
import { createWriteBehind } from "../base/write-behind.ts";

/**
 * Queues of tool calls that have not started: one queue per run, served in rotation, so that a run with endless calls
 * delays no other run. Requests that clients wait for come first.
 */
export interface ToolRows {
  open(): ToolRow;
  /** No further calls start. */
  close(): void;
}

export interface ToolRow {
  add(begin: () => void): void;
  /** Starts all waiting calls now: the run has requested them, and ends. */
  beginAll(): void;
  /** Drops all waiting calls. */
  clear(): void;
}

/** Maximum number of calls started per tick: a provider request takes 0.2 ms of a tick. */
const inTurn = 4;
/** A third of an otherwise idle event loop; under any load, one batch every 5 ms. */
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
