import { createLoopShare } from "../base/loop/loop-share.ts";
import { createWriteBehind } from "../base/loop/write-behind.ts";

/**
 * Queues of tool calls that have not started: one queue per run, served in rotation, so that a run with endless calls
 * delays no other run. Requests that clients wait for come first.
 */
export interface ToolQueues {
  open(): ToolQueue;
  /** No further calls start. */
  close(): void;
}

export interface ToolQueue {
  add(begin: () => void): void;
  /** Starts all waiting calls now: the run has requested them, and ends. */
  startAll(): void;
  /** Drops all waiting calls. */
  clear(): void;
}

/** Maximum number of calls started per tick: a provider request takes 0.2 ms of a tick. */
const perTick = 4;
/** A third of an otherwise idle event loop; under any load, one batch every 5 ms. */
const share = { idleForBusy: 2, owedMs: 3, mostMs: 5 };

export function createToolQueues(): ToolQueues {
  /** Queues that are not empty, in the order of their turns. */
  const waiting: (() => void)[][] = [];
  const pace = createWriteBehind({ begin: beginNext, most: perTick, few: perTick, share: createLoopShare(share) });

  function beginNext(): boolean {
    const queue = waiting.shift();
    const begin = queue?.shift();
    if (queue === undefined || begin === undefined) return false;
    if (queue.length > 0) waiting.push(queue);
    begin();
    return true;
  }

  return {
    open() {
      const queue: (() => void)[] = [];
      function leave(): (() => void)[] {
        const at = waiting.indexOf(queue);
        if (at !== -1) waiting.splice(at, 1);
        return queue.splice(0);
      }
      return {
        add(begin) {
          queue.push(begin);
          if (queue.length === 1) waiting.push(queue);
          pace.soon();
        },
        startAll() {
          for (const begin of leave()) begin();
        },
        clear: () => void leave(),
      };
    },
    close: () => pace.close(),
  };
}
