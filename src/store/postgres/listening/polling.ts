import type { LoopClock } from "../../../base/loop-clock.ts";
import { StoreUnavailable } from "../../contract.ts";
import type { CommitStream } from "../commit-stream.ts";
import type { Outage } from "../outage.ts";
import { onAnother } from "../queries.ts";

/** Reads the commits of other processes periodically, and ends an outage once the server works again. */
export interface Polling {
  /** Polls once. Never rejects. */
  poll(): Promise<void>;
  /** Begins to poll periodically. */
  start(): void;
  /** Does the next poll almost at once. */
  pollSoon(): void;
  /** Does the next poll after the usual interval at the latest: something happened that may concern the server. */
  beAlert(): void;
  /** Resolves once the current poll has ended. */
  stop(): Promise<void>;
}

interface PollingOptions {
  readonly stream: Pick<CommitStream, "readToHead" | "beginSession" | "movedTo" | "revision">;
  readonly outage: Pick<Outage, "error" | "begin" | "end">;
  readonly clock: LoopClock;
  readonly everyMs: number;
  /**
   * Called after each poll that nothing triggered. Returns whether commits would be notified, and none were: polls can
   * then be rarer.
   */
  readonly isQuiet: () => boolean;
}

/** Minimum interval between polls. */
const shortestRestMs = 20;
/** Longest interval while nothing happens, as a multiple of the usual one. */
const mostIntervals = 8;

export function createPolling({ stream, outage, clock, everyMs, isQuiet }: PollingOptions): Polling {
  const rest = createRest();
  let isStopped = false;
  let running: Promise<void> | undefined;

  async function poll(): Promise<void> {
    let isReadable = false;
    try {
      await onAnother(clock, stream.readToHead);
      isReadable = true;
      if (stream.movedTo !== undefined) throw new StoreUnavailable(`the store was moved to ${stream.movedTo}`);
      if (outage.error !== undefined) {
        await stream.beginSession();
        outage.end(stream.revision);
      }
    } catch (error) {
      outage.begin(error, { isTotal: !isReadable });
    }
  }

  async function pollUntilStopped(): Promise<void> {
    let intervals = 1;
    while (!isStopped) {
      const isTriggered = await rest.take(intervals * intervalMs());
      if (isStopped) return;
      await poll();
      const isCalm = !isTriggered && outage.error === undefined && isQuiet();
      intervals = isCalm ? Math.min(2 * intervals, mostIntervals) : 1;
    }
  }

  /** Random, so that the replicas' polls are spread. */
  const intervalMs = () => everyMs * (0.8 + Math.random() * 0.2);

  return {
    poll,
    start() {
      running = pollUntilStopped();
    },
    pollSoon: () => rest.endIn(shortestRestMs),
    beAlert: () => rest.endIn(intervalMs()),
    async stop() {
      isStopped = true;
      rest.endIn(0);
      await running;
    },
  };
}

/** A sleep that can be shortened, also before it begins. */
function createRest() {
  let endsAt = Number.POSITIVE_INFINITY;
  let isShortened = false;
  let timer: NodeJS.Timeout | undefined;
  let end = () => {};

  function setTimer(): void {
    clearTimeout(timer);
    timer = setTimeout(end, Math.max(0, endsAt - performance.now()));
  }

  return {
    /** Returns whether it was shortened. */
    async take(ms: number): Promise<boolean> {
      const { promise, resolve } = Promise.withResolvers<void>();
      end = resolve;
      const now = performance.now();
      endsAt = Math.max(now + shortestRestMs, Math.min(endsAt, now + ms));
      setTimer();
      await promise;
      const wasShortened = isShortened;
      isShortened = false;
      endsAt = Number.POSITIVE_INFINITY;
      timer = undefined;
      return wasShortened;
    },
    endIn(ms: number): void {
      const at = performance.now() + ms;
      isShortened = true;
      if (at >= endsAt) return;
      endsAt = at;
      if (timer !== undefined) setTimer();
    },
  };
}
