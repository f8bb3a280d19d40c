import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import { type Commit, StoreUnavailable } from "../contract.ts";
import type { History } from "../history.ts";
import type { CheckedDatabase } from "./checked-database.ts";
import { requireWritable } from "./folder.ts";
import type { Refusals } from "./refusals.ts";
import { requireRoomToOpen } from "./space.ts";

/**
 * Recovery from a write error: nothing is acknowledged until LevelDB was closed and reopened, because it continues to
 * write to a log whose tail it can no longer read back.
 */
export interface Recovery {
  /** Refuses writes, and reopens the database as soon as that is possible. */
  begin(cause: unknown, uncertain: readonly Commit[]): void;
  /** The current or latest reopening, rejected if it failed; undefined if there was none. */
  readonly reopening: Promise<void> | undefined;
  /** Stops trying. Resolves once the attempt under way has ended. */
  stop(): Promise<void>;
}

interface RecoveryOptions {
  readonly folder: string;
  readonly database: CheckedDatabase;
  readonly refusals: Refusals;
  readonly history: History;
  readonly log: Log;
}

const retryEveryMs = 1_000;

export function createRecovery({ folder, database, refusals, history, log }: RecoveryOptions): Recovery {
  const stopping = new AbortController();
  const { signal } = stopping;
  let recovering: Promise<void> | undefined;
  let reopening: Promise<void> | undefined;

  async function recover(uncertain: readonly Commit[]): Promise<void> {
    while (!signal.aborted) {
      try {
        await sleep(retryEveryMs, undefined, { signal });
        // Until it can be reopened, the database stays open for reads.
        await requireRoomToOpen(folder);
        await requireWritable(folder);
        reopening = reopen(uncertain);
        await reopening;
        refusals.set("writeError", undefined);
        log.info("the store accepts writes again", { revision: database.revision });
        return;
      } catch (error) {
        if (!signal.aborted) log.warn("could not reopen the store after a write error; will retry", { err: error });
      }
    }
  }

  /** A failed write may have reached the disk anyway: then it counts, and watchers must receive it. */
  async function reopen(uncertain: readonly Commit[]): Promise<void> {
    await database.reopen();
    for (const commit of uncertain) if (commit.revision <= database.revision) history.add(commit);
  }

  return {
    begin(cause, uncertain) {
      refusals.set("writeError", new StoreUnavailable("the store stopped after a write error", { cause }));
      log.error("the store stopped after a write error", { err: cause });
      recovering = recover(uncertain);
    },
    get reopening() {
      return reopening;
    },
    async stop() {
      stopping.abort();
      await recovering;
    },
  };
}
