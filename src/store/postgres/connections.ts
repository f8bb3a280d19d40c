import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientConfig, DatabaseError, Pool, type PoolClient, TypeOverrides } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import { createLiveness, type LivenessLimits } from "./liveness.ts";
import type { PostgresAddress } from "./url.ts";

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
const keepAliveAfterMs = 10_000;
/** A healthy server closes the connection within this time. */
const partWithinMs = 250;

export function createConnections(options: PostgresConnectionsOptions): PostgresConnections {
  const { address, clock, onWriterLost, connectWithinMs, answerWithinMs } = options;
  const clients = new Set<OwnClient>();
  /** Rejects each waiting statement. */
  const interrupts = new Set<(error: Error) => void>();
  const liveness = createLiveness({ ...options, probe });
  let isClosed = false;

  /** Tracked from its creation: its errors are always handled, and it is always closed. */
  class OwnClient extends Client {
    isConnected = false;

    constructor(config?: ClientConfig) {
      super(config);
      ignoreEnvironment(this);
      clients.add(this);
      // A client is created just before it connects.
      const callOff = clock.after(connectWithinMs, () => {
        this.connection.stream.destroy(new Error("timeout: no connection"));
      });
      this.once("connect", () => {
        this.isConnected = true;
        liveness.answered();
        callOff();
      });
      this.on("error", () => {
        // Pending statements have been rejected already; an idle connection is replaced.
      });
      this.once("end", () => {
        clients.delete(this);
        callOff();
      });
    }
  }

  const config = configOf(address);
  let { writers, readers } = createPools();

  function createPools() {
    const pools = {
      writers: new Pool({ ...config, Client: OwnClient, max: 1, idleTimeoutMillis: 0 }),
      readers: new Pool({ ...config, Client: OwnClient, max: maxReaders, idleTimeoutMillis: keepUnusedMs }),
    };
    pools.writers.on("error", onWriterLost);
    pools.readers.on("error", () => {});
    return pools;
  }

  /** An error from the server counts as a response. */
  const noteAnswer = (error: unknown) => {
    if (error instanceof DatabaseError) liveness.answered();
  };

  /** Rejects if there is no response in time. */
  async function ask<Row extends readonly unknown[]>(
    client: Client | PoolClient,
    text: string,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const { promise: interrupted, reject } = Promise.withResolvers<never>();
    const callOff = clock.after(answerWithinMs, () => reject(new Error("timeout: no answer")));
    const ended = liveness.begin();
    interrupts.add(reject);
    try {
      const { rows } = await Promise.race([
        client.query<unknown[]>({ text, values: [...values], rowMode: "array" }),
        interrupted,
      ]);
      liveness.answered();
      // The rows have the statement's columns.
      return rows as unknown as Row[];
    } catch (error) {
      noteAnswer(error);
      throw error;
    } finally {
      callOff();
      ended();
      interrupts.delete(reject);
    }
  }

  /** Returns a free connection. Keeps waiting in the queue as long as the server responds to other statements. */
  async function turnOn(pool: Pool): Promise<PoolClient> {
    const { promise: interrupted, reject } = Promise.withResolvers<never>();
    let callOff = () => {};
    let isGivenUp = false;
    const giveUp = (error: Error) => {
      isGivenUp = true;
      reject(error);
    };
    const waitOn = () => {
      const before = liveness.answers;
      callOff = clock.after(answerWithinMs, () => {
        if (liveness.answers !== before) waitOn();
        else giveUp(new Error("timeout: nothing was answered"));
      });
    };
    waitOn();
    const ended = liveness.begin();
    interrupts.add(giveUp);
    const connecting = pool.connect();
    void connecting.then(
      // The caller has given up: release the connection.
      (client) => isGivenUp && client.release(),
      noteAnswer,
    );
    try {
      return await Promise.race([connecting, interrupted]);
    } finally {
      callOff();
      ended();
      interrupts.delete(giveUp);
    }
  }

  const queryOn =
    (pool: () => Pool): SqlQuery =>
    async (text, values = []) => {
      if (isClosed) throw new Error("the connections are closed");
      const client = await turnOn(pool());
      try {
        const rows = await ask<never>(client, text, values);
        client.release();
        return rows;
      } catch (error) {
        // The response may still arrive: close the connection.
        client.release(error instanceof Error ? error : true);
        throw error;
      }
    };

  async function connect(client: OwnClient): Promise<void> {
    const ended = liveness.begin();
    try {
      await client.connect();
    } catch (error) {
      noteAnswer(error);
      throw error;
    } finally {
      ended();
    }
  }

  /** Tests whether a connection is possible; a refusal by the server proves that as well. */
  async function probe(withinMs: number): Promise<void> {
    const client = new OwnClient(config);
    const callOff = clock.after(withinMs, () => client.connection.stream.destroy(new Error("timeout: no connection")));
    try {
      await client.connect();
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
    } finally {
      callOff();
      void part(client);
    }
  }

  function interrupt(error: Error): void {
    const [oldWriters, oldReaders] = [writers, readers];
    // Otherwise statements queued in the old pools would open connections one after another, uselessly.
    ({ writers, readers } = createPools());
    for (const reject of interrupts) reject(error);
    for (const client of clients) client.connection.stream.destroy(error);
    void oldWriters.end();
    void oldReaders.end();
    onWriterLost();
  }

  return {
    read: queryOn(() => readers),
    write: queryOn(() => writers),
    interrupt,
    async dedicate() {
      const client = new OwnClient(config);
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      client.once("end", resolve);
      await connect(client);
      return {
        query: (text, values = []) =>
          ask<never>(client, text, values).catch((error: unknown) => {
            if (!(error instanceof DatabaseError)) client.connection.stream.destroy();
            throw error;
          }),
        ended,
        // From the protocol's BackendKeyData; pg's types omit it.
        processId: (client as unknown as { readonly processID: number }).processID,
        onNotification: (listener) => void client.on("notification", ({ payload = "" }) => listener(payload)),
        close: () => part(client),
      };
    },
    async close() {
      isClosed = true;
      liveness.close();
      for (const reject of interrupts) reject(new Error("the connections are closed"));
      const parted = [...clients].map(part);
      // Resolve once all connections are returned, which happens when they end.
      void writers.end();
      void readers.end();
      await Promise.all(parted);
    },
  };
}

/**
 * Closes a connection, with a goodbye if the server responds. A connection that is not established yet is destroyed:
 * waiting for it could take forever.
 */
async function part(client: Client & { readonly isConnected: boolean }): Promise<void> {
  if (client.isConnected) {
    const left = new AbortController();
    const ended = client.end().then(() => left.abort());
    await Promise.race([ended, sleep(partWithinMs, undefined, { signal: left.signal }).catch(() => {})]);
  }
  client.connection.stream.destroy();
}

const types = new TypeOverrides();
// Revisions fit exactly into a number, far beyond any store's size.
types.setTypeParser(20, Number);

const configOf = ({
  host,
  port,
  user,
  password = "",
  database,
  applicationName,
  tls,
}: PostgresAddress): ClientConfig => ({
  host,
  port,
  user,
  // A function, because without a password pg would search the environment and the home folder.
  password: () => password,
  database,
  application_name: applicationName,
  ssl: tls ?? false,
  sslnegotiation: "postgres",
  types,
  keepAlive: true,
  keepAliveInitialDelayMillis: keepAliveAfterMs,
});

/** Clears settings that pg takes from the environment and that cannot be turned off otherwise. */
function ignoreEnvironment(client: Client): void {
  const { connectionParameters } = client as unknown as {
    readonly connectionParameters: { options?: unknown; replication?: unknown };
  };
  connectionParameters.options = undefined;
  connectionParameters.replication = undefined;
}
