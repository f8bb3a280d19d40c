import type { Restoration } from "../contract.ts";
import type { SqlQuery } from "./connections.ts";

interface Place {
  readonly query: SqlQuery;
  readonly schema: string;
}

/** A separate table that only a restore creates. */
const tableOf = (schema: string): string => `${schema}.restoration`;

export async function readRestoration({ query, schema }: Place): Promise<Restoration | undefined> {
  const [there] = await query<[boolean]>(
    `select exists (select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = $1 and relname = 'restoration')`,
    [schema],
  );
  if (there?.[0] !== true) return undefined;
  const [row] = await query<[revision: number, backup: number, restored: number]>(
    `select backup_revision, backup_ms, restored_ms from ${tableOf(schema)} order by restored_ms desc limit 1`,
  );
  return row && { backupRevision: row[0], backupAtMs: row[1], restoredAtMs: row[2] };
}

export async function writeRestoration({ query, schema }: Place, restoration: Restoration): Promise<void> {
  await query(`create table if not exists ${tableOf(schema)}
    (backup_revision bigint not null, backup_ms float8 not null, restored_ms float8 not null)`);
  await query(`insert into ${tableOf(schema)} values ($1, $2, $3)`, [
    restoration.backupRevision,
    restoration.backupAtMs,
    restoration.restoredAtMs,
  ]);
}
