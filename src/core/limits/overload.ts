/** Thresholds at which a process counts as overloaded. */
export interface OverloadRule {
  /** Duration of one tick of the event loop; 0 disables the check. */
  readonly delayMs: number;
  /** How long ticks must stay slow before overload starts, and fast again before overload ends. */
  readonly forMs: number;
}

/** Takes the duration of each tick of the event loop and reports whether the process is overloaded. */
export type Overload = (lapMs: number, nowMs: number) => boolean;

/** Overload ends only below this fraction of the starting threshold: otherwise it would start again at once. */
const over = 0.5;

export function createOverload({ delayMs, forMs }: OverloadRule): Overload {
  let isOverloaded = false;
  /**
   * Start of the unbroken run of ticks that indicate a change. After a stopped process resumes, its long pause counts
   * as one tick.
   */
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
