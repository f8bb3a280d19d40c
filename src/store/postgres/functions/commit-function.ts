import { sqlStates } from "../errors.ts";
import { newMarkSql } from "../marks.ts";

/**
 * Commits a group in one statement: no transaction is held open over the network, and no pooler can mix statements up.
 * The lock on the head puts the commits of all processes in one order; every statement of a volatile function takes a
 * new snapshot, so later statements see the previous commit.
 *
 * The settings: plans are made once per connection, independent of the arguments, and always use the index. A plan made
 * while the table was small would read the whole table forever.
 */
export const settings = `language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set lock_timeout = '5s'`;

export const groupColumns = `commits integer,
    keys bytea[], "values" bytea[], of integer[], revisions bigint[],
    expected_keys bytea[], expected_revisions bigint[], expected_of integer[],
    empty_from bytea[], empty_to bytea[], empty_of integer[]`;
export const groupNames: readonly string[] = [
  ...["commits", "keys", '"values"', "of", "revisions"],
  ...["expected_keys", "expected_revisions", "expected_of", "empty_from", "empty_to", "empty_of"],
];
const groupArguments = `${groupColumns},
    due double precision`;

export const outcome = "out base bigint, out refused integer[], out stale_keys bytea[], out stale_revisions bigint[]";

export const lockHead = (schema: string): string => `
    if current_setting('synchronous_commit') = 'off' then
      perform set_config('synchronous_commit', 'on', true);
    end if;
    select head.revision, head.moved_to into strict base, moved_to
    from ${schema}.head order by head.revision desc limit 1 for update;
    -- The caller has timed out by now.
    if extract(epoch from clock_timestamp()) * 1000 > due then
      raise exception 'the commit comes too late' using errcode = '${sqlStates.overdue}';
    end if;
    if moved_to is not null then
      raise exception 'the store was moved to %', moved_to using errcode = '${sqlStates.moved}';
    end if;`;

export const judgeAndWrite = (schema: string): string => `
    if cardinality(revisions) > 0 or cardinality(expected_of) > 0 then
      select array_agg(expected.of), array_agg(expected.key), array_agg(coalesce(entry.revision, 0))
      into refused, stale_keys, stale_revisions
      from (
        -- Null for a change without an expectation: a comparison with null never differs.
        select * from unnest(keys, revisions, of)
        union all
        select * from unnest(expected_keys, expected_revisions, expected_of)
      ) as expected (key, revision, of)
      left join ${schema}.entry on entry.key = expected.key and entry.value is not null
      where coalesce(entry.revision, 0) <> expected.revision;
    end if;
    if cardinality(empty_of) > 0 then
      select refused || array_agg(range.of), stale_keys || array_agg(found.key), stale_revisions || array_agg(found.revision)
      into refused, stale_keys, stale_revisions
      from unnest(empty_from, empty_to, empty_of) as range (first, beyond, of)
      cross join lateral (
        select entry.key, entry.revision from ${schema}.entry
        where entry.key >= range.first and entry.key < range.beyond and entry.value is not null
        order by entry.key limit 1
      ) as found;
    end if;

    -- Renumbers the accepted commits without gaps.
    if refused is not null then
      numbers := array_fill(1, array[commits]);
      foreach nth in array refused loop
        numbers[nth] := 0;
      end loop;
      for nth in 1..commits loop
        if numbers[nth] > 0 then
          accepted := accepted + 1;
          numbers[nth] := accepted;
        end if;
      end loop;
      select array_agg(change.key), array_agg(change.value), array_agg(numbers[change.of])
      into keys, "values", of
      from unnest(keys, "values", of) as change (key, value, of)
      where numbers[change.of] > 0;
      commits := accepted;
    end if;
    insert into ${schema}.entry (key, value, revision)
    select change.key, change.value, base + change.of from unnest(keys, "values", of) as change (key, value, of)
    on conflict (key) do update set value = excluded.value, revision = excluded.revision;
    update ${schema}.head set revision = base + commits where revision = base and commits > 0;`;

/** Refuses commits of an ended session, and of a replica that has seen a head which the server has since lost. */
export const refuseStranger = (schema: string): string => `
    if exists (select from ${schema}.ended_session where ended_session.session = own_session) then
      raise exception 'the commit comes too late' using errcode = '${sqlStates.overdue}';
    end if;
    if seen_mark is not null
      and not exists (select from ${schema}.mark where mark.revision = seen_revision and mark.value = seen_mark)
      and seen_revision >= (select head.pruned from ${schema}.head where head.revision = base)
    then
      raise exception 'the server lost commits' using errcode = '${sqlStates.lost}';
    end if;`;

const variables = `
    moved_to text;
    numbers integer[];
    nth integer;
    accepted integer := 0;`;

/** The first released version: never change it. */
export const firstCommitFunction = (schema: string): string => `
  create function ${schema}.commit_1(
    ${groupArguments},
    ${outcome}
  ) ${settings}
  as $$
  declare${variables}
  begin${lockHead(schema)}

${judgeAndWrite(schema)}
  end $$;`;

/**
 * The same, with marks. Refuses commits of an ended session, and of a replica that has seen a head which the server has
 * since lost. An older Latchkey calls the first function, and leaves marks as well.
 */
export const markingCommits = (schema: string): string => `
  create function ${schema}.commit_2(
    ${groupArguments},
    own_session bigint, seen_revision bigint, seen_mark bigint, own_mark bigint,
    ${outcome}
  ) ${settings}
  as $$
  declare${variables}
  begin${lockHead(schema)}
${refuseStranger(schema)}

${judgeAndWrite(schema)}
    if commits > 0 then
      insert into ${schema}.mark (revision, value) values (base + commits, own_mark)
      on conflict (revision) do update set value = excluded.value;
    end if;
  end $$;

  create or replace function ${schema}.commit_1(
    ${groupArguments},
    ${outcome}
  ) ${settings}
  as $$
  begin
    select done.base, done.refused, done.stale_keys, done.stale_revisions
    into base, refused, stale_keys, stale_revisions
    from ${schema}.commit_2(commits, keys, "values", of, revisions, expected_keys, expected_revisions, expected_of,
      empty_from, empty_to, empty_of, due, null, null, null, ${newMarkSql}) as done;
  end $$;`;
