import type { Log } from "../../base/log.ts";
import type { LoopClock } from "../../base/loop-clock.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import type { CommitQueue } from "../commit-queue.ts";
import { StoreUnavailable } from "../contract.ts";
import type { History } from "../history.ts";
import { type CommitStream, createCommitStream } from "./commit-stream.ts";
import type { ConnectionLimits, PostgresConnections } from "./connections.ts";
import type { FollowedSpaces } from "./followed-spaces.ts";
import { createBell } from "./listening/bell.ts";
import { createNotifyListener, type NotifyListener } from "./listening/notify.ts";
import { createPolling, type Polling } from "./listening/polling.ts";
import { createOutage, type Outage } from "./outage.ts";
import type { FoundStore } from "./schema.ts";

/** Keeps this process in step with the server: writes, reads of other processes' commits, and outages. */
export interface Replication {
  readonly stream: CommitStream;
  readonly outage: Outage;
  readonly polling: Polling;
  /** Reads what is there; then listens and polls. */
  start(): Promise<NotifyListener>;
  /** The server has stopped responding. */
  onSilence(): void;
}

interface ReplicationOptions {
  readonly connections: PostgresConnections;
  readonly schema: string;
  readonly found: FoundStore;
  readonly history: History;
  readonly followed: FollowedSpaces;
  readonly queue: CommitQueue;
  readonly clock: LoopClock;
  readonly limits: ConnectionLimits & { readonly pollEveryMs: number };
  /** The server, as messages name it. */
  readonly place: string;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly isClosed: () => boolean;
}

export function createReplication(options: ReplicationOptions): Replication {
  const { connections, found, history, clock, log } = options;
  const { answerWithinMs, pollEveryMs } = options.limits;
  let notify: NotifyListener | undefined;
  const outage = createOutage({ ...options, onBegin: () => polling.pollSoon() });
  const stream = createCommitStream({
    ...options,
    answerWithinMs,
    outage,
    onCommitted(revision, commits) {
      if (bell.announces(commits)) notify?.ring(revision);
    },
  });
  const bell = createBell(history);
  const polling = createPolling({ stream, outage, clock, everyMs: pollEveryMs, isQuiet });

  function isQuiet(): boolean {
    const hasNews = bell.hasNews();
    if (notify?.isListening() !== true) return false;
    if (!bell.isMissed()) return !hasNews;
    bell.rang();
    notify.listenAgain();
    return false;
  }

  return {
    stream,
    outage,
    polling,
    async start() {
      await polling.poll();
      notify = createNotifyListener({
        connections,
        storeId: found.storeId,
        log,
        onRing(revision) {
          bell.rang();
          if (revision > history.revision) polling.pollSoon();
        },
        onEnded: polling.beAlert,
      });
      polling.start();
      return notify;
    },
    onSilence() {
      // A server that is known to be away is checked by polling, with its own timeouts.
      if (outage.isTotal) return;
      outage.begin(silence(), { isTotal: true });
      connections.interrupt(outage.error ?? silence());
    },
  };
}

/** Returns the error of a server that does not respond. */
export const silence = () => new StoreUnavailable("no answer in time");
