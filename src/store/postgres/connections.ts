import { DatabaseError, Pool, type PoolConfig } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import { clientConfigOf, part, type TrackedClient, type TrackedClientClass, trackedClientClass } from "./client.ts";
import { createLiveness, type Liveness, type LivenessLimits } from "./liveness.ts";
import { createPrimary } from "./servers/primary.ts";
import type { PostgresAddress, PostgresServer } from "./servers/url.ts";
import { createStatements, type Statements } from "./statements.ts";

/** Runs a statement and returns its rows as arrays of columns. The statement determines the column types. */
export type SqlQuery = <Row extends readonly unknown[]>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

/** Connections to a server, limited in number and time. A broken connection fails only its own statements. */
export interface PostgresConnections {
  /** Runs a short statement concurrently with others; at rest, on the ordered connection, which then is free. */
  readonly read: SqlQuery;
  /** Runs a statement that may take long, never on the ordered connection. */
  readonly readLong: SqlQuery;
  /** Runs a statement on the single ordered connection, so that readers cannot delay it. */
  readonly write: SqlQuery;
  /** Runs several statements on one of the readers' connections, which then is closed if the task fails. */
  onOne<T>(task: (query: SqlQuery) => Promise<T>): Promise<T>;
  /** Opens a separate connection, which the caller must close. */
  dedicate(): Promise<DedicatedConnection>;
  /** Rejects all waiting statements with this error and ends every connection. Later statements get new connections. */
  interrupt(error: Error): void;
  /** Ends all connections; pending statements are rejected. */
  close(): Promise<void>;
}

export interface DedicatedConnection {
  readonly query: SqlQuery;
  /** Resolves when the connection was closed or broke. */
  readonly ended: Promise<void>;
  /** The server process ID, as sent by the server; a pooler sends a different one. */
  readonly processId: number;
  onNotification(listener: (payload: string) => void): void;
  close(): Promise<void>;
}

export interface ConnectionLimits {
  readonly connectWithinMs: number;
  /** A statement that takes longer fails, and its connection is closed. */
  readonly answerWithinMs: number;
  /** Idle time before a connection for reads is closed: opening one takes longer than most statements. */
  readonly keepUnusedMs: number;
}

interface PostgresConnectionsOptions extends ConnectionLimits, LivenessLimits {
  readonly address: PostgresAddress;
  /** Clock for all time limits: it excludes time when this process was busy, which is not the server's fault. */
  readonly clock: LoopClock;
  /** Called when the ordered connection broke while idle: the next one may lead to another server. */
  readonly onWriterLost: () => void;
  /** Called when the server has stopped responding: see `liveness.ts`. */
  readonly onSilence: () => void;
}

/**
 * Maximum number of concurrent statements besides the ordered one. With it and the connection that listens, a process
 * has at most 6 connections; at rest 2.
 */
export const maxReaders = 4;

export function createConnections(options: PostgresConnectionsOptions): PostgresConnections {
  const { address, clock, onWriterLost, connectWithinMs, answerWithinMs, probeWithinMs, keepUnusedMs } = options;
  const clients = new Set<TrackedClient>();
  const liveness = createLiveness({ ...options, probe });
  const primary = createPrimary({ servers: address.servers, acceptsWrites });
  const TrackedClient = trackedClientClass({ clients, clock, connectWithinMs, liveness, primary });
  const statements = createStatements({ clock, liveness, answerWithinMs });
  const config = clientConfigOf(address);
  const poolOptions = { ...config, Client: TrackedClient, onWriterLost, keepUnusedMs };
  let { writers, readers } = createPools(poolOptions);
  let isClosed = false;

  function onClientOf<T>(pool: Pool, task: (query: SqlQuery) => Promise<T>): Promise<T> {
    if (isClosed) return Promise.reject(new Error("the connections are closed"));
    return onClient(pool, statements, task);
  }

  const queryOn =
    (pool: () => Pool): SqlQuery =>
    (text, values) =>
      onClientOf(pool(), (query) => query(text, values));
  const readLong = queryOn(() => readers);

  let isReadOnWriter = false;

  /** Sends a short read ahead on the ordered connection: what is written next is sent behind it, without a wait. */
  async function readOnWriter<Row extends readonly unknown[]>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    isReadOnWriter = true;
    try {
      const client = await statements.takeFrom(writers);
      const reading = statements.run<Row>(client, text, values);
      client.release();
      return await reading.catch((error: unknown) => {
        // The response may still arrive: close the connection.
        if (!(error instanceof DatabaseError)) client.connection.stream.destroy();
        throw error;
      });
    } finally {
      isReadOnWriter = false;
    }
  }

  function read<Row extends readonly unknown[]>(text: string, values?: readonly unknown[]): Promise<Row[]> {
    const isWriterFree = !isClosed && !isReadOnWriter && writers.idleCount === 1 && writers.waitingCount === 0;
    return isWriterFree ? readOnWriter(text, values) : readLong(text, values);
  }

  /** Tests whether a connection is possible; a refusal by the server proves that as well. */
  async function probe(withinMs: number): Promise<void> {
    try {
      await visit(new TrackedClient(config), clock, withinMs);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
    }
  }

  async function acceptsWrites(server: PostgresServer): Promise<boolean> {
    const { isReadOnly } = await visit(new TrackedClient(config, server), clock, probeWithinMs);
    return !isReadOnly;
  }

  function interrupt(error: Error): void {
    const [oldWriters, oldReaders] = [writers, readers];
    primary.leave();
    // Otherwise statements queued in the old pools would open connections one after another, uselessly.
    ({ writers, readers } = createPools(poolOptions));
    statements.interrupt(error);
    for (const client of clients) client.connection.stream.destroy(error);
    void oldWriters.end();
    void oldReaders.end();
    onWriterLost();
  }

  return {
    read,
    readLong,
    write: queryOn(() => writers),
    onOne: (task) => onClientOf(readers, task),
    interrupt,
    dedicate: () => connectDedicated(new TrackedClient(config), { liveness, statements }),
    async close() {
      isClosed = true;
      liveness.close();
      statements.interrupt(new Error("the connections are closed"));
      const parted = [...clients].map(part);
      // Resolve once all connections are returned, which happens when they end.
      void writers.end();
      void readers.end();
      await Promise.all(parted);
    },
  };
}

/** Connects and parts again. */
async function visit(client: TrackedClient, clock: LoopClock, withinMs: number): Promise<TrackedClient> {
  const callOff = clock.after(withinMs, () => client.connection.stream.destroy(new Error("timeout: no connection")));
  try {
    await client.connect();
    return client;
  } finally {
    callOff();
    void part(client);
  }
}

interface PoolsOptions extends PoolConfig, Pick<PostgresConnectionsOptions, "onWriterLost" | "keepUnusedMs"> {
  readonly Client: TrackedClientClass;
}

function createPools({ onWriterLost, keepUnusedMs, ...config }: PoolsOptions) {
  const pools = {
    writers: new Pool({ ...config, pipeline: true, max: 1, idleTimeoutMillis: 0 }),
    readers: new Pool({ ...config, max: maxReaders, idleTimeoutMillis: keepUnusedMs }),
  };
  pools.writers.on("error", onWriterLost);
  pools.readers.on("error", () => {});
  return pools;
}

/** Runs a task on a free connection of a pool. */
async function onClient<T>(pool: Pool, statements: Statements, task: (query: SqlQuery) => Promise<T>): Promise<T> {
  const client = await statements.takeFrom(pool);
  try {
    const result = await task((text, values = []) => statements.run<never>(client, text, values));
    client.release();
    return result;
  } catch (error) {
    // The response may still arrive: close the connection.
    client.release(error instanceof Error ? error : true);
    throw error;
  }
}

interface ConnectionParts {
  readonly liveness: Liveness;
  readonly statements: Statements;
}

async function connectDedicated(
  client: TrackedClient,
  { liveness, statements }: ConnectionParts,
): Promise<DedicatedConnection> {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  client.once("end", resolve);
  const attemptEnded = liveness.begin();
  try {
    await client.connect();
  } catch (error) {
    statements.noteAnswer(error);
    throw error;
  } finally {
    attemptEnded();
  }
  return {
    query: (text, values = []) =>
      statements.run<never>(client, text, values).catch((error: unknown) => {
        if (!(error instanceof DatabaseError)) client.connection.stream.destroy();
        throw error;
      }),
    ended,
    // From the protocol's BackendKeyData; pg's types omit it.
    processId: (client as unknown as { readonly processID: number }).processID,
    onNotification: (listener) => void client.on("notification", ({ payload = "" }) => listener(payload)),
    close: () => part(client),
  };
}
