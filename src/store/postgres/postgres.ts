import type { Log } from "../../base/log.ts";
import { createLoopClock, type LoopClock } from "../../base/loop-clock.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import { type CommitOutcome, type CommitRequest, createCommitQueue } from "../commit-queue.ts";
import { type Backend, type Entry, type Range, type ScrubStep, StoreRefused, StoreUnavailable } from "../contract.ts";
import { createHistory } from "../history.ts";
import { byteaArray } from "./arrays.ts";
import { commitGroup, endSession } from "./commit.ts";
import {
  createConnections,
  type DedicatedConnection,
  maxReaders,
  type PostgresConnections,
  type SqlQuery,
} from "./connections.ts";
import { isBroken, isDamage, isOfLostCommits, isOfStatement, needsOperator, reasonOf } from "./errors.ts";
import { createFeed } from "./feed.ts";
import type { LivenessLimits } from "./liveness.ts";
import { hasMarkSql, newMark } from "./marks.ts";
import { createNotifyListener } from "./notify.ts";
import { entryOf, everything, readPage, readPages } from "./pages.ts";
import { createPruner } from "./pruner.ts";
import { readRestoration, writeRestoration } from "./restoration.ts";
import { type FoundStore, format, prepareSchema } from "./schema.ts";
import { createSharedQuery } from "./shared-query.ts";
import { fillStore, openSnapshot } from "./snapshot.ts";
import { type PostgresAddress, parsePostgresUrl, placeOf } from "./url.ts";

export interface PostgresTiming extends LivenessLimits {
  /** Maximum delay before another process's commit is seen, or a recovered server is noticed. */
  readonly pollEveryMs: number;
  readonly pruneEveryMs: number;
  readonly pruneAfterMs: number;
  readonly connectWithinMs: number;
  readonly answerWithinMs: number;
}

interface PostgresOptions {
  readonly url: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Creates the store if there is none; default: true. */
  readonly create?: boolean;
  readonly timing?: Partial<PostgresTiming>;
}

const historyBytes = 16 * 1024 * 1024;
/** Minimum interval between reads that notifications trigger. */
const shortestRestMs = 20;
/** A failure sooner than this is due to the connection; later, it may be the server. */
const soonMs = 1_000;
/** All existing connections may have broken at once. */
const maxTries = maxReaders + 2;
const usualTiming: PostgresTiming = {
  pollEveryMs: 500,
  pruneEveryMs: 60_000,
  pruneAfterMs: 600_000,
  connectWithinMs: 5_000,
  answerWithinMs: 10_000,
  suspectAfterMs: 1_000,
  probeWithinMs: 2_000,
};

/**
 * The store that several replicas share: PostgreSQL keeps it, orders their commits, and reports the commits of others.
 *
 * While the server is away or read-only, commits are refused at once; the server is checked twice a second.
 */
export async function openPostgresStore(options: PostgresOptions): Promise<Backend> {
  const { url, log, metrics, create = true, timing = {} } = options;
  const times = { ...usualTiming, ...timing };
  const address = parsePostgresUrl(url);
  const { schema } = address;
  const place = placeOf(address);
  /** The writer's connection is new: facts about the server may be outdated. */
  let isWriterNew = false;
  const clock = createLoopClock();
  const connections = createConnections({
    ...times,
    address,
    clock,
    onWriterLost: () => {
      isWriterNew = true;
    },
    onSilence: () => onSilence(),
  });
  /** While the store is being opened, silence ends the attempt. */
  let onSilence = () => connections.interrupt(silence());
  const found = await findStore({ connections, address, place, log, create });
  /** Why writes are refused, and whether reads fail as well. */
  let outage: { readonly error: StoreUnavailable; readonly isTotal: boolean } | undefined;
  let closed: Promise<void> | undefined;
  const history = createHistory({
    revision: found.revision,
    maxBytes: historyBytes,
    onWatcherError: (err) => {
      metrics.unhandled.inc();
      log.error("a watcher of the store failed", { err });
    },
  });
  const queue = createCommitQueue({ metrics, write: writeGroup });
  onSilence = () => {
    // A server that is known to be away is checked by `poll`, with its own timeouts.
    if (outage?.isTotal) return;
    fail(silence(), { isTotal: true });
    connections.interrupt(outage?.error ?? silence());
  };
  /** Replaced after each outage: commits sent before the outage are refused. */
  let session = newMark();
  const inTurn = createTurns();
  const rest = createRest();
  const feed = createFeed({ query: connections.write, schema, found, history, log });
  metrics.storeWritable.set(1);
  await poll();
  const bell = createNotifyListener({
    connections,
    storeId: found.storeId,
    log,
    onRing: (revision) => {
      if (revision > history.revision) rest.end();
    },
  });
  const pruner = createPruner({
    query: connections.read,
    schema,
    log,
    seen: () => history.revision,
    everyMs: times.pruneEveryMs,
    afterMs: times.pruneAfterMs,
  });
  const polling = pollOnAndOn();

  async function writeGroup(group: readonly CommitRequest[]): Promise<readonly CommitOutcome[]> {
    return inTurn(async () => {
      if (outage !== undefined) throw outage.error;
      try {
        if (isWriterNew) await readOn();
        const due = feed.serverNow() + times.answerWithinMs;
        const mark = newMark();
        const { base, outcomes, commits } = await commitGroup({
          ...{ query: connections.write, schema, group, due, session, mark },
          seen: feed.seen,
        });
        await feed.takeIn({ base, commits, mark });
        if (commits.length > 0) bell.ring(history.revision);
        metrics.storeRevision.set(history.revision);
        return outcomes;
      } catch (error) {
        if (isOfLostCommits(error)) await readOn();
        else if (!isOfStatement(error)) fail(error, { isTotal: false });
        throw error;
      }
    });
  }

  /** Must be called in turn (`inTurn`). */
  async function readSome(): Promise<boolean> {
    isWriterNew = false;
    const isThere = await feed.readSome();
    metrics.storeRevision.set(history.revision);
    return isThere;
  }

  /** Reads up to the head. */
  async function readOn(): Promise<void> {
    while (!(await readSome())) {
      // More to read.
    }
  }

  /** Reads up to the head, letting commits run in between. */
  async function readOnInTurns(): Promise<void> {
    while (!(await inTurn(readSome))) {
      // More to read.
    }
  }

  /**
   * Reads up to a revision for callers, many of whom may wait: once one caller's read failed, the others are rejected
   * instead of waiting for their own to fail.
   */
  async function readUpTo(revision: number): Promise<void> {
    let isThere = false;
    while (!isThere && history.revision < revision) {
      isThere = await inTurn(async () => {
        if (outage?.isTotal) throw outage.error;
        if (history.revision >= revision) return true;
        try {
          return await onAnother(clock, readSome);
        } catch (error) {
          if (isBroken(error)) fail(error, { isTotal: true });
          throw error;
        }
      });
    }
  }

  function fail(cause: unknown, { isTotal }: { readonly isTotal: boolean }): void {
    // Statements that the silence interrupted add no new information.
    if (closed !== undefined || cause === outage?.error) return;
    const error = new StoreUnavailable(`PostgreSQL at ${place}: ${reasonOf(cause)}`, { cause });
    if (outage === undefined) {
      log.error("the store takes no writes", { err: error });
      metrics.storeWritable.set(0);
      rest.end();
    }
    outage = { error, isTotal };
    queue.stop(error);
  }

  async function takeWritesAgain(): Promise<void> {
    // A durable write proves that writes work before the store says so.
    await inTurn(() => endSession({ query: connections.write, schema, session }));
    session = newMark();
    outage = undefined;
    queue.resume();
    metrics.storeWritable.set(1);
    log.info("the store takes writes again", { revision: history.revision });
  }

  async function poll(): Promise<void> {
    let isReadable = false;
    try {
      await onAnother(clock, readOnInTurns);
      isReadable = true;
      if (feed.movedTo !== undefined) throw new StoreUnavailable(`the store was moved to ${feed.movedTo}`);
      if (outage !== undefined) await takeWritesAgain();
    } catch (error) {
      fail(error, { isTotal: !isReadable });
    }
  }

  async function pollOnAndOn(): Promise<void> {
    while (closed === undefined) {
      // Spreads the replicas' polls.
      await rest.take(times.pollEveryMs * (0.8 + Math.random() * 0.4));
      if (closed === undefined) await poll();
    }
  }

  function requireOpen(): void {
    if (closed !== undefined) throw new StoreUnavailable("the store is closed");
  }

  /** Converts errors into those of the contract. */
  async function asking<T>(ask: () => Promise<T>): Promise<T> {
    requireOpen();
    if (outage?.isTotal) throw outage.error;
    try {
      return await ask();
    } catch (cause) {
      requireOpen();
      if (cause instanceof StoreUnavailable) throw cause;
      if (isBroken(cause)) rest.end();
      throw new StoreUnavailable(`PostgreSQL at ${place}: ${reasonOf(cause)}`, { cause });
    }
  }

  const read: SqlQuery = (text, values) => asking(() => onAnother(clock, () => connections.read(text, values)));

  /** Returns the revision to read up to; infinity if commits were lost, whatever the last revision is. */
  const headNow = createSharedQuery(async () => {
    const { seen } = feed;
    const [head] = await read<[number, boolean]>(
      `select revision, ${hasMarkSql(schema, { revision: "$1", value: "$2" })}
      from ${schema}.head order by revision desc limit 1`,
      [seen?.revision, seen?.value],
    );
    if (head === undefined) throw new StoreUnavailable("the store has no head");
    const [revision, hasMark] = head;
    return hasMark ? revision : Number.POSITIVE_INFINITY;
  });

  /** Reads up to the head at the time of the call; most often it was read already, or is being committed here. */
  async function catchUp(): Promise<void> {
    const head = await headNow();
    await asking(() => readUpTo(head));
    if (history.relearning !== undefined) await inTime(history.relearning);
  }

  /** Limits the wait for watchers that read everything again, which may take any time. */
  async function inTime(relearning: Promise<void>): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const callOff = clock.after(times.answerWithinMs, () =>
      reject(new StoreUnavailable("what is in memory is being read anew")),
    );
    await Promise.race([relearning, late]).finally(callOff);
  }

  async function dedicate(): Promise<DedicatedConnection> {
    const connection = await asking(() => connections.dedicate());
    return { ...connection, query: (text, values) => asking(() => connection.query(text, values)) };
  }

  async function* scrubbed(): AsyncGenerator<ScrubStep> {
    let last = "";
    try {
      for await (const entries of readPages(read, schema, everything)) {
        last = entries.at(-1)?.key ?? last;
        yield { entries, damaged: [] };
      }
    } catch (error) {
      const { cause } = error as Error;
      if (!isDamage(cause)) throw error;
      yield { entries: [], damaged: [`what follows the key ${JSON.stringify(last)}: ${reasonOf(cause)}`] };
    }
  }

  /** Lists a range of any length as of one moment, in short statements. */
  async function listAll(range: Range): Promise<readonly Entry[]> {
    const snapshot = await openSnapshot({ dedicate, schema });
    try {
      const entries: Entry[] = [];
      for await (const page of snapshot.pagesOf(range)) for (const entry of page) entries.push(entry);
      return entries;
    } finally {
      await snapshot.close();
    }
  }

  async function close(): Promise<void> {
    await queue.drained();
    bell.close();
    pruner.close();
    rest.end();
    await connections.close();
    await polling;
    clock.close();
  }

  async function getMany(keys: readonly string[]): Promise<readonly (Entry | undefined)[]> {
    const rows = await read<[key: Buffer, value: Buffer, revision: number]>(
      `select key, value, revision from ${schema}.entry where key = any ($1) and value is not null`,
      [byteaArray(keys.map((key) => Buffer.from(key)))],
    );
    const entries = new Map(rows.map(entryOf).map((entry) => [entry.key, entry]));
    return keys.map((key) => entries.get(key));
  }

  return {
    getMany,
    async get(key) {
      const [entry] = await getMany([key]);
      return entry;
    },
    async list(range) {
      const { entries, rest: more } = await readPage(read, schema, range);
      return more === undefined ? entries : listAll(range);
    },
    commit(changes, conditions = []) {
      if (closed !== undefined) return Promise.reject(new StoreUnavailable("the store is closed"));
      return queue.commit(changes, conditions);
    },
    async watch(from, watcher) {
      if (from > history.revision) await asking(() => readUpTo(from));
      requireOpen();
      return history.watch(from, watcher);
    },
    snapshot: () => openSnapshot({ dedicate, schema }),
    async fill(content) {
      await fillStore({ dedicate, schema }, content);
      await asking(readOnInTurns);
    },
    scrub: scrubbed,
    caughtUp: catchUp,
    async clock() {
      const [row] = await read<[number]>("select extract(epoch from clock_timestamp())::float8 * 1000");
      if (row === undefined) throw new StoreUnavailable("the server does not tell the time");
      return row[0];
    },
    isShared: true,
    sessions: { current: () => bell.session(), hasEnded: (session) => asking(() => bell.hasEnded(session)) },
    status() {
      const reason = closed === undefined ? outage?.error.message : "the store is closed";
      const { storeId } = found;
      return {
        backend: "postgres",
        storeId,
        format,
        revision: history.revision,
        writable: reason === undefined,
        reason,
        lostUpTo: feed.lostUpTo,
      };
    },
    async space() {
      const [row] = await read<[number]>("select pg_total_relation_size($1::regclass)", [`${schema}.entry`]);
      return { usedBytes: row?.[0] ?? 0, freeBytes: undefined };
    },
    restoration: () => readRestoration({ query: read, schema }),
    noteRestoration: (restoration) => asking(() => writeRestoration({ query: connections.write, schema }, restoration)),
    async retire(to) {
      await asking(() => inTurn(() => connections.write(`update ${schema}.head set moved_to = $1`, [to])));
      await poll();
    },
    close() {
      closed ??= close();
      return closed;
    },
  };
}

const silence = () => new StoreUnavailable("no answer in time");

interface FindOptions {
  readonly connections: PostgresConnections;
  readonly address: PostgresAddress;
  readonly place: string;
  readonly log: Log;
  readonly create: boolean;
}

async function findStore({ connections, address, place, log, create }: FindOptions): Promise<FoundStore> {
  const { schema, user } = address;
  try {
    const { query, close } = await connections.dedicate();
    try {
      return await prepareSchema({ query, schema, user, log, create });
    } finally {
      await close();
    }
  } catch (cause) {
    await connections.close();
    if (cause instanceof StoreRefused) throw cause;
    const message = `PostgreSQL at ${place}: ${reasonOf(cause)}`;
    throw needsOperator(cause) ? new StoreRefused(message, { cause }) : new StoreUnavailable(message, { cause });
  }
}

/** Runs tasks one after another, in the order of their calls. */
function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
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

/** Retries on another connection: one that broke while idle may show that only when it is used. */
async function onAnother<T>(clock: LoopClock, ask: () => Promise<T>): Promise<T> {
  const askedAt = clock.now();
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!isBroken(error) || tries === maxTries || clock.now() - askedAt > soonMs) throw error;
    }
  }
}
