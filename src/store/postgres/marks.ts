import { randomInt } from "node:crypto";

/**
 * A revision is only a number: a server that lost its last commits gives the same numbers to other commits. So each
 * group of commits stores a random mark with its last revision. A replica remembers the mark of the newest head it has
 * seen, and each of its reads and commits checks that the server still has the mark.
 */
export interface Mark {
  readonly revision: number;
  /** Null if the server has none: a store older than marks. */
  readonly value: number | null;
}

/** Returns one of 2^48 values: exact as a number, and unlikely to repeat. */
export const newMark = (): number => randomInt(2 ** 48 - 1);
export const newMarkSql = "floor(random() * 281474976710655)::bigint";

/** SQL that checks whether the server has the mark; true without a mark. The parameters are placeholders. */
export const hasMarkSql = (
  schema: string,
  { revision, value }: { readonly revision: string; readonly value: string },
) =>
  `(${value}::bigint is null or exists (
    select from ${schema}.mark where mark.revision = ${revision}::bigint and mark.value = ${value}::bigint
  ))`;

/** SQL for the newest revision that watchers saw and the server then lost; 0 if none. */
export const lostUpToSql = (schema: string): string => `(select coalesce(max(up_to), 0) from ${schema}.loss)`;

/** Tables besides those of the first format. An older Latchkey works without them. */
export const marksSql = (schema: string): string => `
  -- No commit runs while the marks are created.
  select from ${schema}.head for update;
  create table ${schema}.mark (revision bigint primary key, value bigint not null);
  insert into ${schema}.mark select revision, ${newMarkSql} from ${schema}.head;
  -- Watchers may have seen commits up to these revisions that a server has since lost.
  create table ${schema}.loss (up_to bigint primary key);
  -- Sessions whose commits are refused: see \`endSession\`.
  create table ${schema}.ended_session (session bigint primary key, since timestamptz not null default now());`;
