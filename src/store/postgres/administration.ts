import type { Restoration, SnapshotContent, Space } from "../contract.ts";
import type { CommitStream } from "./commit-stream.ts";
import type { PostgresConnections } from "./connections.ts";
import type { Polling } from "./listening/polling.ts";
import type { Queries } from "./queries.ts";
import { readRestoration, writeRestoration } from "./restoration.ts";
import { fillStore } from "./snapshot.ts";

/** Operations on the whole store: filling, moving, measuring. */
export interface Administration {
  fill(content: SnapshotContent): Promise<void>;
  space(): Promise<Space>;
  restoration(): Promise<Restoration | undefined>;
  noteRestoration(restoration: Restoration): Promise<void>;
  retire(to: string): Promise<void>;
}

interface AdministrationOptions {
  readonly queries: Queries;
  readonly connections: PostgresConnections;
  readonly schema: string;
  readonly stream: CommitStream;
  readonly polling: Polling;
}

export function createAdministration(options: AdministrationOptions): Administration {
  const { queries, connections, schema, stream, polling } = options;
  const { read, readLong, dedicate, attempt } = queries;
  return {
    async fill(content) {
      await fillStore({ dedicate, schema }, content);
      await attempt(stream.readToHead);
    },
    async space() {
      const [row] = await readLong<[number]>("select pg_total_relation_size($1::regclass)", [`${schema}.entry`]);
      return { usedBytes: row?.[0] ?? 0, freeBytes: undefined };
    },
    restoration: () => readRestoration({ query: read, schema }),
    noteRestoration: (restoration) =>
      attempt(() => writeRestoration({ query: connections.write, schema }, restoration)),
    async retire(to) {
      const sql = `update ${schema}.head set moved_to = $1`;
      await attempt(() => stream.inTurn(() => connections.write(sql, [to])));
      await polling.poll();
    },
  };
}
