import { StoreUnavailable } from "../../contract.ts";
import { needsOperator, reasonOf } from "../errors.ts";
import { type PostgresServer, placeOf } from "./url.ts";

/** Which of several servers is the primary. It changes with a failover. */
export interface Primary {
  /** Returns the known primary, or asks all servers at once. */
  find(): Promise<PostgresServer>;
  /** No connection to this server is possible, or it does not respond: the next `find` asks all servers. */
  leave(server?: PostgresServer): void;
}

interface PrimaryOptions {
  readonly servers: readonly PostgresServer[];
  /** Connects; returns whether this server accepts writes. */
  readonly acceptsWrites: (server: PostgresServer) => Promise<boolean>;
}

export function createPrimary({ servers, acceptsWrites }: PrimaryOptions): Primary {
  const only = servers.length === 1 ? servers[0] : undefined;
  let current: PostgresServer | undefined;
  let seeking: Promise<PostgresServer> | undefined;

  async function ask(server: PostgresServer): Promise<PostgresServer> {
    if (await acceptsWrites(server)) return server;
    throw new StoreUnavailable("it is a standby or read-only");
  }

  async function seek(): Promise<PostgresServer> {
    try {
      current = await Promise.any(servers.map(ask));
      return current;
    } catch (error) {
      const { errors } = error as AggregateError;
      if (errors.every(needsOperator)) throw errors[0];
      const reasons = servers.map((server, i) => `${placeOf({ servers: [server] })}: ${reasonOf(errors[i])}`);
      throw new StoreUnavailable(`no server accepts writes (${reasons.join("; ")})`);
    } finally {
      seeking = undefined;
    }
  }

  return {
    async find() {
      const known = only ?? current;
      if (known !== undefined) return known;
      seeking ??= seek();
      return seeking;
    },
    leave(server = current) {
      if (server === current) current = undefined;
    },
  };
}
