/** From when on a process is overloaded. */
export interface OverloadRule {
  /** One lap of the event loop; 0: never. */
  readonly delayMs: number;
  /** For so long without a break, and for so long without a relapse until it is over. */
  readonly forMs: number;
}

/** Told of one lap of the loop after another, says whether the process has more to do than it can. */
export type Overload = (lapMs: number, nowMs: number) => boolean;

/** It is over when laps are shorter than this part of what began it: else it would begin again at once. */
const over = 0.5;

export function createOverload({ delayMs, forMs }: OverloadRule): Overload {
  let isOverloaded = false;
  /** Since when every lap has spoken for a change; of a process that was stopped and goes on, one lap alone does. */
  let since: number | undefined;
  return (lapMs, nowMs) => {
    const speaksForChange = delayMs > 0 && (isOverloaded ? lapMs < delayMs * over : lapMs >= delayMs);
    if (!speaksForChange) since = undefined;
    else if (since === undefined) since = nowMs;
    else if (nowMs - since >= forMs) {
      isOverloaded = !isOverloaded;
      since = undefined;
    }
    return isOverloaded;
  };
}
