import type { LoopClock } from "../../base/loop-clock.ts";
import { StoreUnavailable } from "../contract.ts";
import type { CommitStream } from "./commit-stream.ts";
import type { Outage } from "./outage.ts";
import { onAnother } from "./queries.ts";

/** Reads the commits of other processes periodically, and ends an outage once the server works again. */
export interface Polling {
  /** Polls once. Never rejects. */
  poll(): Promise<void>;
  /** Begins to poll periodically. */
  start(): void;
  /** Does the next poll almost at once. */
  pollSoon(): void;
  /** Resolves once the current poll has ended. */
  stop(): Promise<void>;
}

interface PollingOptions {
  readonly stream: CommitStream;
  readonly outage: Outage;
  readonly clock: LoopClock;
  readonly everyMs: number;
}

/** Minimum interval between polls that notifications trigger. */
const shortestRestMs = 20;

export function createPolling({ stream, outage, clock, everyMs }: PollingOptions): Polling {
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
    while (!isStopped) {
      // Spreads the replicas' polls.
      await rest.take(everyMs * (0.8 + Math.random() * 0.4));
      if (!isStopped) await poll();
    }
  }

  return {
    poll,
    start() {
      running = pollUntilStopped();
    },
    pollSoon: rest.end,
    async stop() {
      isStopped = true;
      rest.end();
      await running;
    },
  };
}

/** A sleep that can be ended early; if ended before it began, it is short. */
function createRest() {
  let shorten: (() => void) | undefined;
  let isOver = false;
  return {
    async take(ms: number): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>();
      let timer = setTimeout(resolve, isOver ? shortestRestMs : ms);
      shorten = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, shortestRestMs);
        shorten = undefined;
      };
      await promise;
      shorten = undefined;
      isOver = false;
    },
    end(): void {
      isOver = true;
      shorten?.();
    },
  };
}
