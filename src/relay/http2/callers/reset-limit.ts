const burst = 1_000;
const perSecond = 33;

/** Limits the streams that a client begins for nothing: those that it resets, and malformed ones. */
export class ResetLimit {
  #left = burst;
  #sinceMs = performance.now();

  /** Returns false when there were too many. */
  take(): boolean {
    this.#left -= 1;
    if (this.#left >= 0) return true;
    const nowMs = performance.now();
    this.#left = Math.min(burst, ((nowMs - this.#sinceMs) / 1_000) * perSecond) - 1;
    this.#sinceMs = nowMs;
    return this.#left >= 0;
  }
}
