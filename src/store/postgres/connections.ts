import { DatabaseError, Pool } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import { clientConfigOf, part, type TrackedClient, trackedClientClass } from "./client.ts";
import { createLiveness, type Liveness, type LivenessLimits } from "./liveness.ts";
import { createPrimary } from "./servers/primary.ts";
import type { PostgresAddress, PostgresServer } from "./servers/url.ts";
import { createStatements, type Statements } from "./statements.ts";

/** Runs a statement and returns its rows as arrays of columns. The statement determines the column types. */
export type SqlQuery = <Row extends readonly unknown[]>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

/** Connections to a server, limited in number and time. A broken connection fails only its own statements. */
export interface PostgresConnections {
  /** Runs a statement concurrently with others. */
  readonly read: SqlQuery;
  /** Runs a statement on the single ordered connection, so that readers cannot delay it. */
  readonly write: SqlQuery;
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

/** Maximum number of concurrent statements besides the ordered one. */
export const maxReaders = 8;
/** Idle time before a connection is closed: opening one takes longer than most statements. */
const keepUnusedMs = 60_000;

export function createConnections(options: PostgresConnectionsOptions): PostgresConnections {
  const { address, clock, onWriterLost, connectWithinMs, answerWithinMs, probeWithinMs } = options;
  const clients = new Set<TrackedClient>();
  const liveness = createLiveness({ ...options, probe });
  const primary = createPrimary({ servers: address.servers, acceptsWrites });
  const TrackedClient = trackedClientClass({ clients, clock, connectWithinMs, liveness, primary });
  const statements = createStatements({ clock, liveness, answerWithinMs });
  const config = clientConfigOf(address);
  let { writers, readers } = createPools();
  let isClosed = false;

  function createPools() {
    const pools = {
      writers: new Pool({ ...config, Client: TrackedClient, max: 1, idleTimeoutMillis: 0 }),
      readers: new Pool({ ...config, Client: TrackedClient, max: maxReaders, idleTimeoutMillis: keepUnusedMs }),
    };
    pools.writers.on("error", onWriterLost);
    pools.readers.on("error", () => {});
    return pools;
  }

  const queryOn =
    (pool: () => Pool): SqlQuery =>
    async (text, values = []) => {
      if (isClosed) throw new Error("the connections are closed");
      const client = await statements.takeFrom(pool());
      try {
        const rows = await statements.run<never>(client, text, values);
        client.release();
        return rows;
      } catch (error) {
        // The response may still arrive: close the connection.
        client.release(error instanceof Error ? error : true);
        throw error;
      }
    };

  /** Connects and parts again. */
  async function visit(client: TrackedClient, withinMs: number): Promise<TrackedClient> {
    const callOff = clock.after(withinMs, () => client.connection.stream.destroy(new Error("timeout: no connection")));
    try {
      await client.connect();
      return client;
    } finally {
      callOff();
      void part(client);
    }
  }

  /** Tests whether a connection is possible; a refusal by the server proves that as well. */
  async function probe(withinMs: number): Promise<void> {
    try {
      await visit(new TrackedClient(config), withinMs);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
    }
  }

  async function acceptsWrites(server: PostgresServer): Promise<boolean> {
    const { isReadOnly } = await visit(new TrackedClient(config, server), probeWithinMs);
    return !isReadOnly;
  }

  function interrupt(error: Error): void {
    const [oldWriters, oldReaders] = [writers, readers];
    primary.leave();
    // Otherwise statements queued in the old pools would open connections one after another, uselessly.
    ({ writers, readers } = createPools());
    statements.interrupt(error);
    for (const client of clients) client.connection.stream.destroy(error);
    void oldWriters.end();
    void oldReaders.end();
    onWriterLost();
  }

  return {
    read: queryOn(() => readers),
    write: queryOn(() => writers),
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
