import { sqlStates } from "../errors.ts";
import {
  groupColumns,
  groupNames,
  judgeAndWrite,
  lockHead,
  outcome,
  refuseStranger,
  settings,
} from "./commit-function.ts";

/** Groups that left at about the same time: the index is read only there, also past rows that are long gone. */
const nearMs = 1_000;
/** The other processes wait for no group that takes long. */
const mostChanges = 1_000;
const mostGroups = 64;
/** The lock that processes take turns with; its queue is fair, and a release wakes only the first in line. */
const turn = (schema: string): string => `hashtextextended('latchkey commits of ${schema}', 0)`;
const groupColumnsOf = (row: string): string => groupNames.map((name) => `${row}.${name}`).join(", ");

/**
 * Groups of several processes that commit together. The server makes a transaction durable before it releases the head,
 * so processes that commit one after another each wait for the disk, or a standby, once for every process before them.
 * Here a process that finds another at work leaves its group and waits in line; the next in line commits all groups that
 * were left, in one transaction, and the others find their outcome. Without another process at work, nothing is left and
 * nothing is found: a group is one statement, as before.
 *
 * Both tables are unlogged: writing to them waits for no disk. A crash of the server empties them: the fate of a group
 * that waited is then unknown.
 */
export const combinedCommits = (schema: string): readonly string[] => [
  `create unlogged table ${schema}.waiting_group (
    mark bigint primary key,
    due double precision not null,
    session bigint, seen_revision bigint, seen_mark bigint,
    changes integer not null,
    ${groupColumns}
  );
  create index on ${schema}.waiting_group (due);
  alter table ${schema}.waiting_group alter column keys set storage external, alter column "values" set storage external;`,
  `create unlogged table ${schema}.group_outcome (
    mark bigint primary key,
    base bigint not null, refused integer[], stale_keys bytea[], stale_revisions bigint[],
    since timestamptz not null default now()
  );`,
  functionsSql(schema),
];

const functionsSql = (schema: string): string => `
  -- Checks and writes one more group of the transaction that has the head.
  create function ${schema}.write_group(
    base bigint, ${groupColumns},
    out refused integer[], out stale_keys bytea[], out stale_revisions bigint[], out accepted integer
  ) ${settings}
  as $$
  declare
    numbers integer[];
    nth integer;
  begin
    accepted := 0;
    ${judgeAndWrite(schema)}
    accepted := commits;
  end $$;

  -- Commits a group, and all that wait. Without the turn, leaves the group and returns no base.
  create function ${schema}.commit_3(
    ${groupColumns}, due double precision,
    own_session bigint, seen_revision bigint, seen_mark bigint, own_mark bigint,
    ${outcome}
  ) ${settings}
  as $$
  declare
    moved_to text;
    numbers integer[];
    nth integer;
    accepted integer := 0;
    left_group ${schema}.waiting_group;
    done record;
  begin
    if not pg_try_advisory_xact_lock(${turn(schema)}) then
      insert into ${schema}.waiting_group values (
        own_mark, due, own_session, seen_revision, seen_mark, cardinality(keys), ${groupNames.join(", ")}
      );
      return;
    end if;
    ${lockHead(schema)}
    ${refuseStranger(schema)}
    ${judgeAndWrite(schema)}
    if commits > 0 then
      insert into ${schema}.mark (revision, value) values (base + commits, own_mark)
      on conflict (revision) do update set value = excluded.value;
    end if;
    commits := base + commits;

    -- What is refused here, or fails, is left to its own process, which is told why.
    for left_group in
      select * from ${schema}.waiting_group as waiting
      where waiting.due > extract(epoch from clock_timestamp()) * 1000
        and waiting.due between commit_3.due - ${nearMs} and commit_3.due + ${nearMs}
        and waiting.changes <= ${mostChanges}
      order by waiting.due limit ${mostGroups}
    loop
      continue when exists (select from ${schema}.ended_session where ended_session.session = left_group.session)
        or (left_group.seen_mark is not null and not exists (
          select from ${schema}.mark
          where mark.revision = left_group.seen_revision and mark.value = left_group.seen_mark
        ));
      begin
        select * into strict done from ${schema}.write_group(commits, ${groupColumnsOf("left_group")});
        if done.accepted > 0 then
          insert into ${schema}.mark (revision, value) values (commits + done.accepted, left_group.mark)
          on conflict (revision) do update set value = excluded.value;
        end if;
        insert into ${schema}.group_outcome (mark, base, refused, stale_keys, stale_revisions)
        values (left_group.mark, commits, done.refused, done.stale_keys, done.stale_revisions);
        delete from ${schema}.waiting_group where waiting_group.mark = left_group.mark;
        commits := commits + done.accepted;
      exception when others then
        null;
      end;
    end loop;
  end $$;

  -- Waits for the turn, and returns the outcome of a group that was left.
  create function ${schema}.commit_waiting(own_mark bigint, ${outcome}) ${settings}
  as $$
  declare
    own ${schema}.waiting_group;
  begin
    perform pg_advisory_xact_lock(${turn(schema)});
    delete from ${schema}.group_outcome as done where done.mark = own_mark
    returning done.base, done.refused, done.stale_keys, done.stale_revisions
    into base, refused, stale_keys, stale_revisions;
    if found then
      return;
    end if;
    delete from ${schema}.waiting_group as waiting where waiting.mark = own_mark returning * into own;
    if not found then
      raise exception 'the server lost a group of commits that waited' using errcode = '${sqlStates.vanished}';
    end if;
    select done.base, done.refused, done.stale_keys, done.stale_revisions
    into base, refused, stale_keys, stale_revisions
    from ${schema}.commit_3(${groupColumnsOf("own")}, own.due, own.session, own.seen_revision, own.seen_mark, own.mark) as done;
  end $$;`;
