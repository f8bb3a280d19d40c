import type { Backend, Restoration, SnapshotContent, Space } from "../contract.ts";
import type { CommitStream } from "./commit-stream.ts";
import type { PostgresConnections } from "./connections.ts";
import type { Polling } from "./listening/polling.ts";
import { firstOfSql } from "./pages.ts";
import type { Queries } from "./queries.ts";
import { readRestoration, writeRestoration } from "./restoration.ts";
import { fillStore } from "./snapshot.ts";

/** Operations beside commits: filling, moving, measuring, and removing keys without watchers. */
export interface Administration {
  fill(content: SnapshotContent): Promise<void>;
  space(): Promise<Space>;
  restoration(): Promise<Restoration | undefined>;
  noteRestoration(restoration: Restoration): Promise<void>;
  retire(to: string): Promise<void>;
  discard: Backend["discard"];
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
    async discard({ from, to, limit }, { key, expect }) {
      // The fence is locked until the keys are gone. Waits for no other lock, so it cannot deadlock with a commit.
      const gone = await readLong(
        `with fence as materialized (
          select from ${schema}.entry cross join ${schema}.head
          where key = $4 and entry.revision = $5 and value is not null and moved_to is null
          for share of entry
        )
        delete from ${schema}.entry where key = any (array(
          select key from ${schema}.entry where key = any (array(
            select found.key from fence cross join lateral (${firstOfSql(schema)}) as found where found.key < $2
          )) for update skip locked
        )) returning true`,
        [Buffer.from(from), Buffer.from(to), limit, Buffer.from(key), expect],
      );
      return gone.length > 0;
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
