import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../../base/log.ts";
import type { QueuedForward } from "../outbox/queued-forward.ts";
import type { DestinationQueues } from "../queues/delivery-queues.ts";

/** Runs the attempts that the destination queues allow. */
export interface DeliveryRunner {
  /** Starts the next attempt; false if none is due or there is no free slot. */
  beginNext(): boolean;
  /** Waits a moment for the running attempts, then aborts them. The caller starts no more. */
  close(): Promise<void>;
}

interface DeliveryRunnerOptions {
  readonly queues: Pick<DestinationQueues, "next" | "ended">;
  readonly mayBegin: () => boolean;
  /** Makes one attempt; returns whether the destination accepted the forward. */
  readonly attempt: (waiting: QueuedForward, signal: AbortSignal) => Promise<boolean>;
  readonly onEnded: () => void;
  readonly now: () => number;
  readonly log: Log;
}

const closeWithinMs = 5_000;
/** Pause after an error of Latchkey's own, because the cause is probably still there. */
const pauseMs = 2_000;

export function createDeliveryRunner(options: DeliveryRunnerOptions): DeliveryRunner {
  const { queues, mayBegin, attempt, onEnded, now, log } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  /** Number of running attempts, and the callback for when none is left. */
  let running = 0;
  let onNoneRunning: (() => void) | undefined;

  async function pausedAfter(err: unknown): Promise<false> {
    if (signal.aborted) return false;
    log.error("delivery failed with an internal error; will retry", { err });
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
    return false;
  }

  return {
    beginNext() {
      const begun = mayBegin() ? queues.next(now()) : undefined;
      if (begun === undefined) return false;
      running += 1;
      void attempt(begun.waiting, signal)
        .catch(pausedAfter)
        .then((succeeded) => {
          queues.ended(begun, succeeded);
          running -= 1;
          if (running === 0) onNoneRunning?.();
          onEnded();
        });
      return true;
    },
    async close() {
      const ended = new Promise<void>((resolve) => {
        onNoneRunning = resolve;
        if (running === 0) resolve();
      });
      await Promise.race([ended, sleep(closeWithinMs, undefined, { ref: false })]);
      stopping.abort();
      await ended;
    },
  };
}
