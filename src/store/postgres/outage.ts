import type { Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import type { CommitQueue } from "../commit-queue.ts";
import { StoreUnavailable } from "../contract.ts";
import { reasonOf } from "./errors.ts";

/** Whether the server can be used. Commits are refused during an outage, and reads as well during a total one. */
export interface Outage {
  /** Why commits are refused; undefined while the server accepts writes. */
  readonly error: StoreUnavailable | undefined;
  readonly isTotal: boolean;
  begin(cause: unknown, extent: { readonly isTotal: boolean }): void;
  end(revision: number): void;
}

interface OutageOptions {
  /** The server, as messages name it. */
  readonly place: string;
  readonly queue: Pick<CommitQueue, "stop" | "resume">;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly isClosed: () => boolean;
  readonly onBegin: () => void;
}

export function createOutage({ place, queue, log, metrics, isClosed, onBegin }: OutageOptions): Outage {
  let current: { readonly error: StoreUnavailable; readonly isTotal: boolean } | undefined;
  metrics.storeWritable.set(1);
  return {
    get error() {
      return current?.error;
    },
    get isTotal() {
      return current?.isTotal === true;
    },
    begin(cause, { isTotal }) {
      // Statements that the silence interrupted add no new information.
      if (isClosed() || (current !== undefined && cause === current.error)) return;
      const error = new StoreUnavailable(`PostgreSQL at ${place}: ${reasonOf(cause)}`, { cause });
      if (current === undefined) {
        log.error("the store does not accept writes", { err: error });
        metrics.storeWritable.set(0);
        onBegin();
      }
      current = { error, isTotal };
      queue.stop(error);
    },
    end(revision) {
      current = undefined;
      queue.resume();
      metrics.storeWritable.set(1);
      log.info("the store accepts writes again", { revision });
    },
  };
}
