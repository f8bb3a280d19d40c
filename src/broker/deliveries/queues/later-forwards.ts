import { DueHeap } from "../../../base/due-heap.ts";
import type { QueuedForward } from "../outbox/queued-forward.ts";

/** Tolerated clock change: a clock set back by less delays no forward for long. */
const noticedMs = 1_000;

/** Forwards that are not due yet. */
export class LaterForwards {
  readonly #heap = new DueHeap<QueuedForward>();
  /** The latest time seen. A much earlier time means that the clock was set back. */
  #latestMs = 0;

  /** Adds a forward, due by the latest time seen. */
  add(waiting: QueuedForward): void {
    this.#heap.push(waiting, dueAt(waiting, this.#latestMs));
  }

  /** Adds a forward and returns true; returns false if the forward is due now. */
  addUnlessDue(waiting: QueuedForward, nowMs: number): boolean {
    const dueMs = dueAt(waiting, nowMs);
    if (dueMs <= nowMs) return false;
    this.#heap.push(waiting, dueMs);
    return true;
  }

  /** Takes the next forward that is due; undefined if none is. */
  takeDue(nowMs: number): QueuedForward | undefined {
    if (nowMs < this.#latestMs - noticedMs) {
      this.#heap.recompute((waiting) => dueAt(waiting, nowMs));
      this.#latestMs = nowMs;
    }
    this.#latestMs = Math.max(this.#latestMs, nowMs);
    const next = this.#heap.peek();
    if (next === undefined || next.dueMs > nowMs) return undefined;
    this.#heap.pop();
    return next.item;
  }

  retain(isKept: (waiting: QueuedForward) => boolean): void {
    this.#heap.retain(isKept);
  }
}

/**
 * Returns the due time by a clock that may have been set back since: no forward waits longer than its schedule meant.
 */
const dueAt = ({ dueMs, sinceMs }: QueuedForward, nowMs: number): number =>
  Math.min(dueMs, nowMs + Math.max(0, dueMs - sinceMs));
