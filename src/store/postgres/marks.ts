import { randomInt } from "node:crypto";

/**
 * A revision is only a number: a server that lost its last commits gives the same numbers to other commits. So each
 * group of commits leaves a random mark beside its last revision. A replica remembers the mark of the newest head it
 * has seen, and each of its reads and commits asks whether the server still has it.
 */
export interface Mark {
  readonly revision: number;
  /** Null where the server has none: a store of before there were marks. */
  readonly value: number | null;
}

/** 2^48 of them: exact as a number, and never the same by chance. */
export const newMark = (): number => randomInt(2 ** 48 - 1);
export const newMarkSql = "floor(random() * 281474976710655)::bigint";

/** Whether the server has the mark, or has removed it because it is old. Parameters are numbers of arguments. */
export const hasMarkSql = (
  schema: string,
  { revision, value }: { readonly revision: string; readonly value: string },
) =>
  `(${value}::bigint is null or exists (
    select from ${schema}.mark where mark.revision = ${revision}::bigint and mark.value = ${value}::bigint
  ))`;

/** The newest revision that was told to watchers and then lost; 0 when none was. */
export const lostUpToSql = (schema: string): string => `(select coalesce(max(up_to), 0) from ${schema}.loss)`;

/** Tables beside those of the first format. A latchkey that does not know them works on without them. */
export const marksSql = (schema: string): string => `
  -- No commit is under way while they are made.
  select from ${schema}.head for update;
  create table ${schema}.mark (revision bigint primary key, value bigint not null);
  insert into ${schema}.mark select revision, ${newMarkSql} from ${schema}.head;
  -- Up to these revisions, watchers were told of commits that a server has lost since.
  create table ${schema}.loss (up_to bigint primary key);
  -- Nothing more is committed for these: see \`endSession\`.
  create table ${schema}.ended_session (session bigint primary key, since timestamptz not null default now());`;
