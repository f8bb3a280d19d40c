import { afterAll, beforeAll, onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics, type Metrics } from "../../../src/base/metrics/metrics.ts";
import type { Backend, Change, Commit, Watcher } from "../../../src/store/contract.ts";
import { openPostgresStore, type PostgresTiming } from "../../../src/store/postgres/postgres.ts";
import { type Postgres, type PostgresOptions, startPostgres } from "./postgres.ts";

/** One server for all tests of a file, and a schema for each test. */
export interface PostgresFile {
  readonly server: Postgres;
  /** A name that no test had before. */
  newSchema(): string;
  /** Closed when the test has finished. */
  open(options: OpenOptions): Promise<Replica>;
}

export interface OpenOptions {
  readonly schema: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly timing?: Partial<PostgresTiming>;
  readonly create?: boolean;
}

export interface Replica {
  readonly store: Backend;
  readonly metrics: Metrics;
  /** Every logged line. */
  readonly logged: readonly string[];
}

export function postgresForFile(options: () => PostgresOptions = () => ({})): PostgresFile {
  let server: Postgres | undefined;
  let schemas = 0;
  beforeAll(async () => {
    server = await startPostgres(options());
  });
  afterAll(() => server?.stop());
  const started = (): Postgres => {
    if (server === undefined) throw new Error("the server is started before the first test");
    return server;
  };
  return {
    get server() {
      return started();
    },
    newSchema() {
      schemas += 1;
      return `test_${schemas}`;
    },
    open: ({ schema, parameters = {}, ...rest }) =>
      openReplica({ url: started().storeUrl(schema, parameters), ...rest }),
  };
}

interface ReplicaOptions extends Pick<OpenOptions, "timing" | "create"> {
  readonly url: string;
}

export async function openReplica(options: ReplicaOptions): Promise<Replica> {
  const logged: string[] = [];
  const log = createLog({ level: "debug", format: "json", write: (line) => void logged.push(line) });
  const metrics = createMetrics();
  const store = await openPostgresStore({ ...options, log, metrics });
  onTestFinished(() => store.close());
  return { store, metrics, logged };
}

export const put = (key: string, value: string, expect?: number): Change => ({
  key,
  value: Buffer.from(value),
  ...(expect === undefined ? {} : { expect }),
});
export const remove = (key: string): Change => ({ key, value: undefined });
export const everything = { from: "\x01", to: "\u{10ffff}", limit: Number.MAX_SAFE_INTEGER };

/** The contents as `key=value`, in order. */
export async function contentsOf(store: Backend): Promise<string[]> {
  return (await store.list(everything)).map(({ key, value }) => `${key}=${Buffer.from(value)}`);
}

/** A watcher that records what it receives, as `revision:key=value,…`. */
export function recordingWatcher(): Watcher & { readonly told: string[]; isLost(): boolean } {
  const told: string[] = [];
  let lost = false;
  return {
    told,
    isLost: () => lost,
    onCommit({ revision, changes }: Commit) {
      const parts = changes.map(({ key, value }) => `${key}=${value === undefined ? "gone" : Buffer.from(value)}`);
      told.push(`${revision}:${parts.join(",")}`);
    },
    onLost() {
      lost = true;
    },
  };
}
