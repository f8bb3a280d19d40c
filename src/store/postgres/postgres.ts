import type { Log } from "../../base/log.ts";
import { createLoopClock } from "../../base/loop-clock.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import { createCommitQueue } from "../commit-queue.ts";
import { type Backend, StoreRefused, StoreUnavailable } from "../contract.ts";
import { createStoreHistory } from "../history.ts";
import { createAdministration } from "./administration.ts";
import { createCatchUp } from "./catch-up.ts";
import { createConnections, type PostgresConnections } from "./connections.ts";
import { needsOperator, reasonOf } from "./errors.ts";
import { createFollowedSpaces } from "./followed-spaces.ts";
import { createFullReads, type FullReadLimits } from "./full-reads.ts";
import type { LivenessLimits } from "./liveness.ts";
import { createPruner } from "./pruner.ts";
import { createQueries } from "./queries.ts";
import { createPostgresReads } from "./reads.ts";
import { createReplication, silence } from "./replication.ts";
import { type FoundStore, format, prepareSchema } from "./schema.ts";
import { type PostgresAddress, parsePostgresUrl, placeOf } from "./servers/url.ts";

export interface PostgresTiming extends LivenessLimits, FullReadLimits {
  /**
   * Maximum delay before another process's commit is seen without a notification, or a recovered server is noticed.
   * Eight times as much while notifications work and nothing happens.
   */
  readonly pollEveryMs: number;
  readonly pruneEveryMs: number;
  readonly pruneAfterMs: number;
  readonly connectWithinMs: number;
  readonly answerWithinMs: number;
  readonly keepUnusedMs: number;
}

interface PostgresOptions {
  readonly url: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Creates the store if there is none; default: true. */
  readonly create?: boolean;
  readonly timing?: Partial<PostgresTiming>;
}

const usualTiming: PostgresTiming = {
  pollEveryMs: 500,
  pruneEveryMs: 60_000,
  pruneAfterMs: 600_000,
  connectWithinMs: 5_000,
  answerWithinMs: 10_000,
  keepUnusedMs: 20_000,
  suspectAfterMs: 1_000,
  probeWithinMs: 2_000,
  fullReads: 3,
  fullReadWithinMs: 30_000,
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
  const clock = createLoopClock();
  const connections = createConnections({
    ...times,
    address,
    clock,
    onWriterLost: () => onWriterLost(),
    onSilence: () => onSilence(),
  });
  let onWriterLost = () => {};
  /** While the store is being opened, silence ends the attempt. */
  let onSilence = () => connections.interrupt(silence());
  const found = await findStore({ connections, address, place, log, create });
  let closed: Promise<void> | undefined;
  const history = createStoreHistory({ revision: found.revision, log, metrics });
  const followed = createFollowedSpaces(() => history.revision);
  const queue = createCommitQueue({ metrics, write: (group) => stream.write(group) });
  const replication = createReplication({
    connections,
    schema,
    found,
    history,
    followed,
    queue,
    clock,
    limits: times,
    place,
    log,
    metrics,
    isClosed: () => closed !== undefined,
  });
  const { stream, outage, polling } = replication;
  onWriterLost = () => {
    stream.writerLost();
    polling.beAlert();
  };
  onSilence = replication.onSilence;
  const notify = await replication.start();
  const pruner = createPruner({
    query: connections.readLong,
    schema,
    log,
    seen: () => history.revision,
    everyMs: times.pruneEveryMs,
    afterMs: times.pruneAfterMs,
  });
  const queries = createQueries({ connections, clock, outage, place, requireOpen, onBroken: polling.pollSoon });

  function requireOpen(): void {
    if (closed !== undefined) throw new StoreUnavailable("the store is closed");
  }

  async function close(): Promise<void> {
    await queue.drained();
    notify.close();
    pruner.close();
    const stopped = polling.stop();
    await connections.close();
    await stopped;
    clock.close();
  }

  return {
    ...createPostgresReads(queries, schema, createFullReads({ ...times, queries, schema })),
    ...createAdministration({ queries, connections, schema, stream, polling }),
    commit(changes, conditions = []) {
      if (closed !== undefined) return Promise.reject(new StoreUnavailable("the store is closed"));
      return queue.commit(changes, conditions);
    },
    async watch(from, watcher) {
      followed.add(watcher.spaces, from);
      if (from > history.revision) await queries.attempt(() => stream.readUpTo(from));
      requireOpen();
      return history.watch(from, watcher);
    },
    caughtUp: createCatchUp({ queries, schema, stream, history, clock, limits: times }),
    isShared: true,
    sessions: {
      current: () => notify.session(),
      hasEnded: (session) => queries.attempt(() => notify.hasEnded(session)),
    },
    status() {
      const { storeId } = found;
      const { revision } = history;
      const { lostUpTo } = stream;
      const reason = closed === undefined ? outage.error?.message : "the store is closed";
      return { backend: "postgres", storeId, format, revision, writable: reason === undefined, reason, lostUpTo };
    },
    close() {
      closed ??= close();
      return closed;
    },
  };
}

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
