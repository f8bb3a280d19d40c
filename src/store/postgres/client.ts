import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientConfig, TypeOverrides } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import type { Liveness } from "./liveness.ts";
import type { Primary } from "./servers/primary.ts";
import type { PostgresAddress, PostgresServer } from "./servers/url.ts";

/** A client of pg that is tracked from its creation: its errors are always handled, and it is always closed. */
export interface TrackedClient extends Client {
  readonly isConnected: boolean;
  /** What the server reported of itself; a pooler may not pass it on. */
  readonly isReadOnly: boolean;
}

export type TrackedClientClass = new (config?: ClientConfig, server?: PostgresServer) => TrackedClient;

interface TrackedClientOptions {
  /** All clients that have not ended. */
  readonly clients: Set<TrackedClient>;
  readonly clock: LoopClock;
  readonly connectWithinMs: number;
  readonly liveness: Pick<Liveness, "answered">;
  /** Where clients connect that are made without a server. */
  readonly primary: Primary;
}

interface ParameterStatus {
  readonly parameterName: string;
  readonly parameterValue: string;
}

/** What libpq looks at as well, from PostgreSQL 14 on. */
const readOnlyParameters = ["in_hot_standby", "default_transaction_read_only"];
const keepAliveAfterMs = 10_000;
/** A healthy server closes the connection within this time. */
const partWithinMs = 250;

/** Returns the class that pools make their clients of. */
export function trackedClientClass(options: TrackedClientOptions): TrackedClientClass {
  const { clients, clock, connectWithinMs, liveness, primary } = options;
  return class extends Client {
    isConnected = false;
    isReadOnly = false;
    readonly #server: PostgresServer | undefined;

    constructor(config?: ClientConfig, server?: PostgresServer) {
      super(config);
      this.#server = server;
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
      this.connection.on("parameterStatus", ({ parameterName, parameterValue }: ParameterStatus) => {
        this.isReadOnly ||= readOnlyParameters.includes(parameterName) && parameterValue === "on";
      });
    }

    override connect(): Promise<Client>;
    override connect(callback: (error: Error) => void): void;
    override connect(callback?: (error: Error) => void): Promise<Client> | undefined {
      const connecting = this.#connect();
      if (callback === undefined) return connecting;
      // pg's pool, in which no error means success.
      connecting.then(() => (callback as () => void)(), callback);
      return undefined;
    }

    async #connect(): Promise<Client> {
      const server = this.#server ?? (await this.#primary());
      Object.assign(this, server);
      try {
        return await super.connect();
      } catch (error) {
        primary.leave(server);
        throw error;
      }
    }

    async #primary(): Promise<PostgresServer> {
      try {
        const server = await primary.find();
        // It was called off in the meantime.
        if (this.connection.stream.destroyed) throw new Error("timeout: no connection");
        return server;
      } catch (error) {
        // Never connected, it never ends.
        this.emit("end");
        throw error;
      }
    }
  };
}

/**
 * Closes a connection, with a goodbye if the server responds. A connection that is not established yet is destroyed:
 * waiting for it could take forever.
 */
export async function part(client: TrackedClient): Promise<void> {
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

export const clientConfigOf = ({
  user,
  password = "",
  database,
  applicationName,
  tls,
}: PostgresAddress): ClientConfig => ({
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
