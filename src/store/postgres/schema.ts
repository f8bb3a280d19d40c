import type { Log } from "../../base/log.ts";
import { StoreRefused, StoreUnavailable } from "../contract.ts";
import type { SqlQuery } from "./connections.ts";
import { isBroken, isForbidden } from "./errors.ts";
import { combinedCommits } from "./functions/combined-commits.ts";
import { firstCommitFunction, markingCommits } from "./functions/commit-function.ts";
import { marksSql } from "./marks.ts";

/** An opened store. */
export interface FoundStore {
  readonly storeId: string;
  readonly revision: number;
  /** SQL for the timeline that the server writes; null if the server does not reveal it. */
  readonly timelineSql: string;
}

interface PrepareOptions {
  readonly query: SqlQuery;
  readonly schema: string;
  readonly user: string;
  readonly log: Log;
  /** Creates the store if there is none. */
  readonly create: boolean;
}

/**
 * The format that is written. Older formats are upgraded at start; newer ones are refused. Additions that an older
 * Latchkey can work without do not change the format, so that both versions can run side by side during a rolling
 * update.
 */
export const format = 1;
const oldestServer = 140_000;

/** Finds or creates the store, and upgrades it to the current format. */
export async function prepareSchema(options: PrepareOptions): Promise<FoundStore> {
  const { query, schema, create } = options;
  await requireServer(options);
  const found = await formatOf(options);
  if (found === 0 && !create) throw new StoreRefused(`there is no store in the schema ${schema}`);
  if (found < format || !(await hasAdditions(options))) await migrate(options);
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

/** Checks server settings that no statement could compensate for. */
async function requireServer({ query, log }: PrepareOptions): Promise<void> {
  const [facts] = await query<[number, string, boolean, string, string, string]>(
    `select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
      current_setting('default_transaction_isolation'), current_setting('transaction_read_only'),
      current_setting('fsync')`,
  );
  if (facts === undefined) throw new StoreRefused("the server did not report its version and settings");
  const [number, version, isStandby, isolation, isReadOnly, fsync] = facts;
  if (number < oldestServer) throw new StoreRefused(`PostgreSQL ${version} is too old; use 14 or later`);
  // During a failover, a pooler may lead here for a moment: wait.
  if (isStandby) throw new StoreUnavailable("the server is a standby; name the host of the primary");
  if (isReadOnly !== "off") {
    throw new StoreRefused("the role or the database is read-only; set default_transaction_read_only to off for it");
  }
  // A commit waits for the previous one, and must then see its effects.
  if (isolation !== "read committed") {
    throw new StoreRefused(
      `transactions are ${isolation} here; set default_transaction_isolation to 'read committed' for the role`,
    );
  }
  if (fsync !== "on") {
    log.warn("the PostgreSQL server has fsync off; a crash of its machine can lose or damage the store");
  }
}

/** Returns 0 if there is no store yet. */
async function formatOf({ query, schema }: PrepareOptions): Promise<number> {
  if (!(await hasTable({ query, schema }, "head"))) return 0;
  const [head] = await query<[number]>(`select format from ${schema}.head`);
  const found = head?.[0] ?? 0;
  if (found > format) {
    throw new StoreRefused(
      `the store in the schema ${schema} is of format ${found}, written by a newer Latchkey; this one reads formats up to ${format}`,
    );
  }
  return found;
}

/** Queries the catalog directly: `to_regclass` caches that a table did not exist before the lock was acquired. */
async function hasTable({ query, schema }: Pick<PrepareOptions, "query" | "schema">, name: string): Promise<boolean> {
  const [there] = await query<[boolean]>(
    `select exists (select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = $1 and relname = $2)`,
    [schema, name],
  );
  return there?.[0] === true;
}

/**
 * Runs in one transaction, one process at a time: a second process finds the work done, and a crash leaves nothing half
 * done.
 */
async function migrate(options: PrepareOptions): Promise<void> {
  const { query, schema, user, log } = options;
  await query("begin");
  try {
    await query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [`latchkey ${schema}`]);
    const found = await formatOf(options);
    if (found === 0) await createSchema(options);
    for (const step of steps.slice(found)) await query(step(schema));
    const made = await makeAdditions(options);
    await query(`update ${schema}.head set format = ${format}`);
    await query("commit");
    if (found < format) log.info("upgraded the store's schema", { schema, from: found, to: format });
    else if (made.length > 0) log.info("added to the store's schema", { schema, made });
  } catch (error) {
    // The connection may be gone, and the transaction with it.
    await query("rollback").catch(() => {});
    if (!isForbidden(error)) throw error;
    throw new StoreRefused(
      `the role may not create the schema of the store; have an administrator run: create schema ${schema} authorization "${user}"`,
      { cause: error },
    );
  }
}

interface Addition {
  readonly name: string;
  /** Made in the same transaction. */
  readonly table: string;
  /** Statements one by one, so that none takes long on a slow disk. */
  readonly sql: (schema: string) => readonly string[];
}

/** An older Latchkey works without these. Never change a released one. */
const additions: readonly Addition[] = [
  { name: "marks of commits", table: "mark", sql: (schema) => [marksSql(schema), markingCommits(schema)] },
  { name: "combined commits", table: "waiting_group", sql: combinedCommits },
];

async function hasAdditions(options: PrepareOptions): Promise<boolean> {
  for (const { table } of additions) if (!(await hasTable(options, table))) return false;
  return true;
}

/** Makes what is missing, and returns its names. */
async function makeAdditions(options: PrepareOptions): Promise<readonly string[]> {
  const made: string[] = [];
  for (const { name, table, sql } of additions) {
    if (await hasTable(options, table)) continue;
    for (const statement of sql(options.schema)) await options.query(statement);
    made.push(name);
  }
  return made;
}

/** Avoids `if not exists`, which requires the right to create a schema even if it exists. */
async function createSchema({ query, schema }: PrepareOptions): Promise<void> {
  const [there] = await query<[boolean]>("select exists (select from pg_namespace where nspname = $1)", [schema]);
  if (there?.[0] !== true) await query(`create schema ${schema}`);
}

/**
 * The first part of the names of the server's WAL files, which changes after a failover. Some managed servers do not
 * reveal it.
 */
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

/** Step n upgrades format n to n + 1. Never change a released step. */
const steps: readonly ((schema: string) => string)[] = [
  (schema) => `
    create table ${schema}.head (
      revision bigint not null,
      -- Tombstones up to this revision may be gone.
      pruned bigint not null,
      format integer not null,
      store_id uuid not null,
      moved_to text
    );
    -- While a transaction, a backup or a report is open, the server keeps every version of this row. The index finds the
    -- newest one without reading the others.
    create index on ${schema}.head (revision);
    insert into ${schema}.head (revision, pruned, format, store_id) values (0, 0, 0, gen_random_uuid());

    create table ${schema}.entry (
      key bytea primary key,
      -- Null: deleted. The row stays for a while, so that other replicas see the deletion.
      value bytea,
      revision bigint not null
    );
    create index entry_revision on ${schema}.entry (revision);
    create index entry_deleted on ${schema}.entry (revision) where value is null;
    ${firstCommitFunction(schema)}`,
];
