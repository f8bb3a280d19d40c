import type { Log } from "../../base/log.ts";
import type { LoopClock } from "../../base/loop-clock.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import type { CommitOutcome, CommitRequest } from "../commit-queue.ts";
import type { Commit } from "../contract.ts";
import type { History } from "../history.ts";
import { commitGroup, endSession } from "./commit.ts";
import type { PostgresConnections } from "./connections.ts";
import { isBroken, isOfLostCommits, isOfStatement } from "./errors.ts";
import { createFeed } from "./feed.ts";
import type { FollowedSpaces } from "./followed-spaces.ts";
import { type Mark, newMark } from "./marks.ts";
import type { Outage } from "./outage.ts";
import { onAnother } from "./queries.ts";
import type { FoundStore } from "./schema.ts";

/**
 * All commits in the order of their revisions: writes of this process and reads of what others committed run one after
 * another.
 */
export interface CommitStream {
  /** The latest known revision. */
  readonly revision: number;
  write(group: readonly CommitRequest[]): Promise<readonly CommitOutcome[]>;
  /** Reads up to the head; writes may run in between. */
  readToHead(): Promise<void>;
  /**
   * Reads up to a revision. Many callers may wait for their turn: when the read of one fails, the others are rejected
   * with it.
   */
  readUpTo(revision: number): Promise<void>;
  /**
   * Ends the session of commits after an outage and begins another, so that commits sent before are refused. A durable
   * write, which proves that writes work.
   */
  beginSession(): Promise<void>;
  /** Runs a task between writes and reads. */
  inTurn<T>(task: () => Promise<T>): Promise<T>;
  /** The writer's next connection may lead to another server. */
  writerLost(): void;
  /** The newest head seen. */
  readonly seen: Mark | undefined;
  /** Watchers may have seen commits up to this revision that the server has since lost; 0: none. */
  readonly lostUpTo: number;
  /** Where the store was moved, if it was. */
  readonly movedTo: string | undefined;
}

interface CommitStreamOptions {
  readonly connections: PostgresConnections;
  readonly schema: string;
  readonly found: FoundStore;
  readonly history: History;
  readonly followed: FollowedSpaces;
  readonly outage: Outage;
  readonly clock: LoopClock;
  /** The server refuses commits that reach it later than this. */
  readonly answerWithinMs: number;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Called after a write, with the last revision. */
  readonly onCommitted: (revision: number, commits: readonly Commit[]) => void;
}

export function createCommitStream(options: CommitStreamOptions): CommitStream {
  const { connections, schema, found, history, followed, outage, clock, answerWithinMs, log, metrics, onCommitted } =
    options;
  const { write: query } = connections;
  const inTurn = createTurns();
  const feed = createFeed({ query, schema, found, history, followed, log });
  let session = newMark();
  /** The writer's connection is new: facts about the server may be outdated. */
  let isWriterNew = false;

  async function commitNext(group: readonly CommitRequest[]): Promise<readonly CommitOutcome[]> {
    if (outage.error !== undefined) throw outage.error;
    try {
      if (isWriterNew) await readOn();
      const due = feed.serverNow() + answerWithinMs;
      const mark = newMark();
      const { seen } = feed;
      const { base, outcomes, commits } = await commitGroup({ query, schema, group, due, session, mark, seen });
      await feed.takeIn({ base, commits, mark });
      if (commits.length > 0) onCommitted(history.revision, commits);
      metrics.storeRevision.set(history.revision);
      return outcomes;
    } catch (error) {
      if (isOfLostCommits(error)) await readOn();
      else if (!isOfStatement(error)) outage.begin(error, { isTotal: false });
      throw error;
    }
  }

  /** Must be called in turn (`inTurn`). */
  async function readSome(): Promise<boolean> {
    isWriterNew = false;
    const isAtHead = await feed.readSome();
    metrics.storeRevision.set(history.revision);
    return isAtHead;
  }

  /** Reads up to the head. Must be called in turn. */
  async function readOn(): Promise<void> {
    while (!(await readSome())) {
      // More to read.
    }
  }

  async function readSomeUpTo(revision: number): Promise<boolean> {
    if (outage.isTotal) throw outage.error;
    if (history.revision >= revision) return true;
    try {
      return await onAnother(clock, readSome);
    } catch (error) {
      if (isBroken(error)) outage.begin(error, { isTotal: true });
      throw error;
    }
  }

  return {
    get revision() {
      return history.revision;
    },
    write: (group) => inTurn(() => commitNext(group)),
    async readToHead() {
      while (!(await inTurn(readSome))) {
        // More to read.
      }
    },
    async readUpTo(revision) {
      let isAtHead = false;
      while (!isAtHead && history.revision < revision) isAtHead = await inTurn(() => readSomeUpTo(revision));
    },
    async beginSession() {
      await inTurn(() => endSession({ query, schema, session }));
      session = newMark();
    },
    inTurn,
    writerLost() {
      isWriterNew = true;
    },
    get seen() {
      return feed.seen;
    },
    get lostUpTo() {
      return feed.lostUpTo;
    },
    get movedTo() {
      return feed.movedTo;
    },
  };
}

/** Runs tasks one after another, in the order of their calls. */
function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(task: () => Promise<T>): Promise<T> => {
    const turn = last.then(task);
    last = turn.catch(() => {});
    return turn;
  };
}
