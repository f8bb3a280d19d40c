import type { Log } from "../../base/log.ts";
import { StoreRefused } from "../contract.ts";
import { firstCommitFunction, markingCommits } from "./commit-function.ts";
import type { SqlQuery } from "./connections.ts";
import { isBroken, isForbidden } from "./errors.ts";
import { marksSql } from "./marks.ts";

/** What is there when a store is opened. */
export interface FoundStore {
  readonly storeId: string;
  readonly revision: number;
  /** How to ask for the timeline that the server writes; null where it does not tell. */
  readonly timelineSql: string;
}

interface PrepareOptions {
  readonly query: SqlQuery;
  readonly schema: string;
  readonly user: string;
  readonly log: Log;
  /** Makes a store where there is none. */
  readonly create: boolean;
}

/**
 * The format that is written. Older ones are brought up to it at start, newer ones are refused. What an older latchkey
 * can work on without is added without another format, so that both serve side by side while replicas are replaced.
 */
export const format = 1;
const oldestServer = 140_000;

/** Finds the store, or makes it; brings it up to the format of this latchkey. */
export async function prepareSchema(options: PrepareOptions): Promise<FoundStore> {
  const { query, schema, create } = options;
  await requireServer(options);
  const found = await formatOf(options);
  if (found === 0 && !create) throw new StoreRefused(`there is no store in the schema ${schema}`);
  if (found < format || !(await hasTable(options, "mark"))) await migrate(options);
  const [head] = await query<[storeId: string, revision: number, movedTo: string | null]>(
    `select store_id, revision, moved_to from ${schema}.head`,
  );
  if (head === undefined) throw new StoreRefused(`the store in the schema ${schema} has no head; restore a backup`);
  const [storeId, revision, movedTo] = head;
  if (movedTo !== null) {
    throw new StoreRefused(`the store in the schema ${schema} was moved to ${movedTo} and is out of date`);
  }
  return { storeId, revision, timelineSql: await timelineSql(query) };
}

/** What no statement of ours could make up for. */
async function requireServer({ query, log }: PrepareOptions): Promise<void> {
  const [facts] = await query<[number, string, boolean, string, string, string]>(
    `select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
      current_setting('default_transaction_isolation'), current_setting('transaction_read_only'),
      current_setting('fsync')`,
  );
  if (facts === undefined) throw new StoreRefused("the server does not say what it is");
  const [number, version, isStandby, isolation, isReadOnly, fsync] = facts;
  if (number < oldestServer) throw new StoreRefused(`PostgreSQL ${version} is too old; 14 is the oldest that will do`);
  if (isStandby) throw new StoreRefused("the server is a standby; name one that leads to the primary");
  if (isReadOnly !== "off") {
    throw new StoreRefused("the role or the database is read-only; set default_transaction_read_only to off for it");
  }
  // A commit waits for the one before it and then judges by what that one left behind.
  if (isolation !== "read committed") {
    throw new StoreRefused(
      `transactions are ${isolation} here; set default_transaction_isolation to 'read committed' for the role`,
    );
  }
  if (fsync !== "on") {
    log.warn("the PostgreSQL server has fsync off: a crash of its machine can lose or damage all of it");
  }
}

/** 0: there is nothing yet. */
async function formatOf({ query, schema }: PrepareOptions): Promise<number> {
  if (!(await hasTable({ query, schema }, "head"))) return 0;
  const [head] = await query<[number]>(`select format from ${schema}.head`);
  const found = head?.[0] ?? 0;
  if (found > format) {
    throw new StoreRefused(
      `the store in the schema ${schema} is of format ${found}, written by a newer latchkey; this one knows up to ${format}`,
    );
  }
  return found;
}

/** Asks the catalogue itself: `to_regclass` remembers what was not there before the lock was waited for. */
async function hasTable({ query, schema }: Pick<PrepareOptions, "query" | "schema">, name: string): Promise<boolean> {
  const [there] = await query<[boolean]>(
    `select exists (select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = $1 and relname = $2)`,
    [schema, name],
  );
  return there?.[0] === true;
}

/** In one transaction, one process at a time: whoever comes second finds it done, and a crash leaves nothing half done. */
async function migrate(options: PrepareOptions): Promise<void> {
  const { query, schema, user, log } = options;
  await query("begin");
  try {
    await query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [`latchkey ${schema}`]);
    const found = await formatOf(options);
    if (found === 0) await createSchema(options);
    for (const step of steps.slice(found)) await query(step(schema));
    const isMarked = await hasTable(options, "mark");
    if (!isMarked) await query(`${marksSql(schema)}\n${markingCommits(schema)}`);
    await query(`update ${schema}.head set format = ${format}`);
    await query("commit");
    if (found < format) log.info("the store's schema was brought up to date", { schema, from: found, to: format });
    else if (!isMarked) log.info("marks of commits were added to the store's schema", { schema });
  } catch (error) {
    // The connection may be gone, and the transaction with it.
    await query("rollback").catch(() => {});
    if (!isForbidden(error)) throw error;
    throw new StoreRefused(
      `the role may not make what the store needs; let somebody who may run: create schema ${schema} authorization "${user}"`,
      { cause: error },
    );
  }
}

/** Not `if not exists`: that asks for the right to create one although it is there. */
async function createSchema({ query, schema }: PrepareOptions): Promise<void> {
  const [there] = await query<[boolean]>("select exists (select from pg_namespace where nspname = $1)", [schema]);
  if (there?.[0] !== true) await query(`create schema ${schema}`);
}

/** The beginning of the names of its log's files. After a failover it is another. Some managed servers do not tell. */
async function timelineSql(query: SqlQuery): Promise<string> {
  const sql = "case when pg_is_in_recovery() then null else left(pg_walfile_name(pg_current_wal_lsn()), 8) end";
  try {
    await query(`select ${sql}`);
    return sql;
  } catch (error) {
    if (isBroken(error)) throw error;
    return "null::text";
  }
}

/** Step n makes format n + 1 of format n. One that was released is never changed. */
const steps: readonly ((schema: string) => string)[] = [
  (schema) => `
    create table ${schema}.head (
      revision bigint not null,
      -- Of what was deleted up to here, nothing may be left.
      pruned bigint not null,
      format integer not null,
      store_id uuid not null,
      moved_to text
    );
    -- While anybody holds a transaction, a backup or a report, the server keeps every version of this one row. The
    -- newest is found by its revision, without reading past all the others.
    create index on ${schema}.head (revision);
    insert into ${schema}.head (revision, pruned, format, store_id) values (0, 0, 0, gen_random_uuid());

    create table ${schema}.entry (
      key bytea primary key,
      -- Null: deleted. The row stays for a while, so that others hear of it.
      value bytea,
      revision bigint not null
    );
    create index entry_revision on ${schema}.entry (revision);
    create index entry_deleted on ${schema}.entry (revision) where value is null;
    ${firstCommitFunction(schema)}`,
];
