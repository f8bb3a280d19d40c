import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientConfig, TypeOverrides } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import type { Liveness } from "./liveness.ts";
import type { PostgresAddress } from "./url.ts";

/** A client of pg that is tracked from its creation: its errors are always handled, and it is always closed. */
export interface TrackedClient extends Client {
  readonly isConnected: boolean;
}

export type TrackedClientClass = new (config?: ClientConfig) => TrackedClient;

interface TrackedClientOptions {
  /** All clients that have not ended. */
  readonly clients: Set<TrackedClient>;
  readonly clock: LoopClock;
  readonly connectWithinMs: number;
  readonly liveness: Pick<Liveness, "answered">;
}

const keepAliveAfterMs = 10_000;
/** A healthy server closes the connection within this time. */
const partWithinMs = 250;

/** Returns the class that pools make their clients of. */
export function trackedClientClass(options: TrackedClientOptions): TrackedClientClass {
  const { clients, clock, connectWithinMs, liveness } = options;
  return class extends Client {
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
