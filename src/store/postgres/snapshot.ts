import { type Snapshot, type SnapshotContent, StoreUsed } from "../contract.ts";
import { bigintArray, byteaArray } from "./arrays.ts";
import type { DedicatedConnection } from "./connections.ts";
import { newMark } from "./marks.ts";
import { everything, readPages } from "./pages.ts";

interface SnapshotSource {
  readonly dedicate: () => Promise<DedicatedConnection>;
  readonly schema: string;
}

/**
 * A consistent view of everything at one moment. Holds a transaction, as pg_dump does: until it is closed, the server
 * keeps all replaced row versions.
 */
export async function openSnapshot({ dedicate, schema }: SnapshotSource): Promise<Snapshot> {
  const { query, close } = await dedicate();
  try {
    await query("begin isolation level repeatable read read only");
    await query("set local idle_in_transaction_session_timeout = 0");
    const [head] = await query<[number]>(`select revision from ${schema}.head`);
    return { revision: head?.[0] ?? 0, pages: () => readPages(query, schema, everything), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Imports the contents of a snapshot, in one transaction. */
export async function fillStore(
  { dedicate, schema }: SnapshotSource,
  { revision, pages }: SnapshotContent,
): Promise<void> {
  const { query, close } = await dedicate();
  try {
    await query("begin");
    await query("set local idle_in_transaction_session_timeout = 0");
    const [used] = await query<[boolean]>(
      `select revision > 0 or exists (select from ${schema}.entry) from ${schema}.head for update`,
    );
    if (used?.[0] !== false) throw new StoreUsed("the store is not empty");
    for await (const entries of pages) {
      await query(
        `insert into ${schema}.entry (key, value, revision) select * from unnest($1::bytea[], $2::bytea[], $3::bigint[])`,
        [
          byteaArray(entries.map(({ key }) => Buffer.from(key))),
          byteaArray(entries.map(({ value }) => value)),
          bigintArray(entries.map((entry) => entry.revision)),
        ],
      );
    }
    // A snapshot does not contain earlier deletions.
    await query(`update ${schema}.head set revision = $1, pruned = $1`, [revision]);
    await query(`insert into ${schema}.mark values ($1, $2) on conflict (revision) do update set value = $2`, [
      revision,
      newMark(),
    ]);
    await query("commit");
  } finally {
    // Closing without a commit rolls everything back.
    await close();
  }
}
