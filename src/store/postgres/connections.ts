import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientConfig, DatabaseError, Pool, type PoolClient, TypeOverrides } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import { createLiveness, type LivenessLimits } from "./liveness.ts";
import type { PostgresAddress } from "./url.ts";

/** One statement and its rows, each an array of its columns. What they are is the statement's to say. */
export type SqlQuery = <Row extends readonly unknown[]>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

/** Connections to one server, bounded in number and in time. One that breaks fails what it carries, and no more. */
export interface PostgresConnections {
  /** A statement that may run beside others. */
  readonly read: SqlQuery;
  /** On the one connection for what goes in order, so that no crowd of readers can hold it up. */
  readonly write: SqlQuery;
  /** A connection of one's own, to be closed. */
  dedicate(): Promise<DedicatedConnection>;
  /** Rejects everything that waits with this error and ends every connection. What comes next is given new ones. */
  interrupt(error: Error): void;
  /** Ends them all; what they still carry is rejected. */
  close(): Promise<void>;
}

export interface DedicatedConnection {
  readonly query: SqlQuery;
  /** Resolves when it was closed, or broke. */
  readonly ended: Promise<void>;
  /** The process that serves it, as the server told; a pooler tells something else. */
  readonly processId: number;
  onNotification(listener: (payload: string) => void): void;
  close(): Promise<void>;
}

export interface ConnectionLimits {
  readonly connectWithinMs: number;
  /** A statement that takes longer fails, and its connection is given up. */
  readonly answerWithinMs: number;
}

interface PostgresConnectionsOptions extends ConnectionLimits, LivenessLimits {
  readonly address: PostgresAddress;
  /** All that has a limit in time is measured by it: that this process was busy is not the server's fault. */
  readonly clock: LoopClock;
  /** The connection for what goes in order broke while it was idle: the next one may lead to another server. */
  readonly onWriterLost: () => void;
  /** The server has stopped answering: see `postgres-liveness.ts`. */
  readonly onSilence: () => void;
}

/** Statements under way beside the one that goes in order. */
export const maxReaders = 8;
/** An unused connection is kept for so long: to make one takes longer than most statements. */
const keepUnusedMs = 60_000;
const keepAliveAfterMs = 10_000;
/** A server that is well has taken its leave by then. */
const partWithinMs = 250;

export function createConnections(options: PostgresConnectionsOptions): PostgresConnections {
  const { address, clock, onWriterLost, connectWithinMs, answerWithinMs } = options;
  const clients = new Set<OwnClient>();
  /** Rejects each statement that waits. */
  const interrupts = new Set<(error: Error) => void>();
  const liveness = createLiveness({ ...options, probe });
  let isClosed = false;

  /** Known to us from the moment it is made: nothing it says is unheard, and nothing of it outlives us. */
  class OwnClient extends Client {
    isConnected = false;

    constructor(config?: ClientConfig) {
      super(config);
      ignoreEnvironment(this);
      clients.add(this);
      // It is made when it is to connect.
      const callOff = clock.after(connectWithinMs, () => {
        this.connection.stream.destroy(new Error("timeout: no connection"));
      });
      this.once("connect", () => {
        this.isConnected = true;
        liveness.answered();
        callOff();
      });
      this.on("error", () => {
        // Whoever waits for an answer has been told; a connection that only lay there is replaced.
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

  /** An error of the server's is an answer. */
  const noteAnswer = (error: unknown) => {
    if (error instanceof DatabaseError) liveness.answered();
  };

  /** Rejects when there was no answer in time. */
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
      // The statement's columns.
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

  /** One that is free. In a row behind others it is waited for as long as the server answers any of them. */
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
      // Nobody is there any more to give it back.
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
        // It may still have an answer to come: it is given up.
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

  /** Connects, which the server's refusal proves to be possible as well. */
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
    // Those that stand in the old pools' rows would have connections made for them, one after another, for nothing.
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
        // Of the protocol's BackendKeyData; pg's types leave it out.
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
      // They resolve when everything was given back, which the connections that are ended now see to.
      void writers.end();
      void readers.end();
      await Promise.all(parted);
    },
  };
}

/** Politely, if the server still answers. One that does not answer yet is not asked to: whoever waits for it would wait on. */
async function part(client: Client & { readonly isConnected: boolean }): Promise<void> {
  if (client.isConnected) {
    const left = new AbortController();
    const ended = client.end().then(() => left.abort());
    await Promise.race([ended, sleep(partWithinMs, undefined, { signal: left.signal }).catch(() => {})]);
  }
  client.connection.stream.destroy();
}

const types = new TypeOverrides();
// Revisions: exact far beyond what any store reaches.
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
  // As a function: with nothing at all, pg would look for one in the environment and in the home folder.
  password: () => password,
  database,
  application_name: applicationName,
  ssl: tls ?? false,
  sslnegotiation: "postgres",
  types,
  keepAlive: true,
  keepAliveInitialDelayMillis: keepAliveAfterMs,
});

/** What pg takes from the environment where the configuration is silent, and cannot be told not to. */
function ignoreEnvironment(client: Client): void {
  const { connectionParameters } = client as unknown as {
    readonly connectionParameters: { options?: unknown; replication?: unknown };
  };
  connectionParameters.options = undefined;
  connectionParameters.replication = undefined;
}
