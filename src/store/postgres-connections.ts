import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientConfig, Pool, TypeOverrides } from "pg";
import type { PostgresAddress } from "./postgres-url.ts";

/** One statement and its rows, each an array of its columns. What they are is the statement's to say. */
export type Query = <Row extends readonly unknown[]>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

/** Connections to one server, bounded in number and in time. One that breaks fails what it carries, and no more. */
export interface Connections {
  /** A statement that may run beside others. */
  readonly read: Query;
  /** On the one connection for what goes in order, so that no crowd of readers can hold it up. */
  readonly write: Query;
  /** A connection of one's own, to be closed. */
  dedicate(): Promise<Dedicated>;
  /** Ends them all; what they still carry is rejected. */
  close(): Promise<void>;
}

export interface Dedicated {
  readonly query: Query;
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

interface ConnectionsOptions extends ConnectionLimits {
  readonly address: PostgresAddress;
  /** The connection for what goes in order broke while it was idle: the next one may lead to another server. */
  readonly onWriterLost: () => void;
}

/** Statements under way beside the one that goes in order. */
export const maxReaders = 8;
/** An unused connection is kept for so long: to make one takes longer than most statements. */
const keepUnusedMs = 60_000;
const keepAliveAfterMs = 10_000;
/** A server that is well has taken its leave by then. */
const partWithinMs = 250;

export function createConnections({ address, onWriterLost, ...limits }: ConnectionsOptions): Connections {
  const clients = new Set<OwnClient>();

  /** Known to us from the moment it is made: nothing it says is unheard, and nothing of it outlives us. */
  class OwnClient extends Client {
    isConnected = false;

    constructor(config?: ClientConfig) {
      super(config);
      ignoreEnvironment(this);
      clients.add(this);
      this.once("connect", () => {
        this.isConnected = true;
      });
      this.on("error", () => {
        // Whoever waits for an answer has been told; a connection that only lay there is replaced.
      });
      this.once("end", () => clients.delete(this));
    }
  }

  const config = configOf(address, limits);
  const writers = new Pool({ ...config, Client: OwnClient, max: 1, idleTimeoutMillis: 0 });
  const readers = new Pool({ ...config, Client: OwnClient, max: maxReaders, idleTimeoutMillis: keepUnusedMs });
  writers.on("error", onWriterLost);
  readers.on("error", () => {});

  return {
    read: queryOn(readers),
    write: queryOn(writers),
    async dedicate() {
      const client = new OwnClient(config);
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      client.once("end", resolve);
      await client.connect();
      return {
        query: queryOn(client),
        ended,
        // Of the protocol's BackendKeyData; pg's types leave it out.
        processId: (client as unknown as { readonly processID: number }).processID,
        onNotification: (listener) => void client.on("notification", ({ payload = "" }) => listener(payload)),
        close: () => part(client),
      };
    },
    async close() {
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

function queryOn(on: Pool | Client): Query {
  return async <Row extends readonly unknown[]>(text: string, values: readonly unknown[] = []) => {
    const { rows } = await on.query<unknown[]>({ text, values: [...values], rowMode: "array" });
    // The statement's columns.
    return rows as unknown as Row[];
  };
}

const types = new TypeOverrides();
// Revisions: exact far beyond what any store reaches.
types.setTypeParser(20, Number);

const configOf = (
  { host, port, user, password = "", database, applicationName, tls }: PostgresAddress,
  { connectWithinMs, answerWithinMs }: ConnectionLimits,
): ClientConfig => ({
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
  connectionTimeoutMillis: connectWithinMs,
  query_timeout: answerWithinMs,
});

/** What pg takes from the environment where the configuration is silent, and cannot be told not to. */
function ignoreEnvironment(client: Client): void {
  const { connectionParameters } = client as unknown as {
    readonly connectionParameters: { options?: unknown; replication?: unknown };
  };
  connectionParameters.options = undefined;
  connectionParameters.replication = undefined;
}
