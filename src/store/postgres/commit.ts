import { type CommitOutcome, type CommitRequest, emptiesOf, expectationsOf } from "../commit-queue.ts";
import { type Change, type Commit, StaleWrite, StoreUnavailable } from "../contract.ts";
import { bigintArray, byteaArray, integerArray } from "./arrays.ts";
import type { SqlQuery } from "./connections.ts";
import { isOfLock } from "./errors.ts";
import type { Mark } from "./marks.ts";

/** Result of a group. */
export interface GroupResult {
  /** The revision before the group. */
  readonly base: number;
  readonly outcomes: readonly CommitOutcome[];
  /** Accepted commits, in the order of their revisions. */
  readonly commits: readonly Commit[];
}

interface GroupToCommit {
  readonly query: SqlQuery;
  readonly schema: string;
  readonly group: readonly CommitRequest[];
  /** Deadline by the server's clock, in milliseconds: the server refuses the commit after it. */
  readonly due: number;
  /** Random, and replaced after each outage: see `endSession`. */
  readonly session: number;
  /** The newest head that this replica has seen; undefined if none. */
  readonly seen: Mark | undefined;
  /** The mark stored with the last revision of the group. */
  readonly mark: number;
}

type CommitAnswer = readonly [
  base: number,
  refused: readonly number[] | null,
  staleKeys: readonly Buffer[] | null,
  // pg does not parse numbers in arrays of this type.
  staleRevisions: readonly string[] | null,
];

/**
 * Checks and writes a group in one statement, which is its own transaction: once the statement returns, the group is
 * durable. While another process commits, that takes a second statement.
 */
export async function commitGroup(options: GroupToCommit): Promise<GroupResult> {
  const { query, schema, group, due, session, seen, mark } = options;
  const [answer] = await query<CommitAnswer | readonly [base: null]>(
    `select * from ${schema}.commit_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
    [group.length, ...argumentsOf(group.map(withEachKeyOnce)), due, session, seen?.revision, seen?.value, mark],
  );
  if (answer === undefined) throw new Error("the server returned no result for a commit");
  return judged(group, answer[0] === null ? await outcomeOf(options) : answer);
}

/** Waits for the outcome of a group that was left to the next process in line: see `combinedCommits`. */
async function outcomeOf({ query, schema, mark }: GroupToCommit): Promise<CommitAnswer> {
  try {
    const [answer] = await query<CommitAnswer>(`select * from ${schema}.commit_waiting($1)`, [mark]);
    if (answer === undefined) throw new Error("the server returned no result for a commit");
    return answer;
  } catch (error) {
    // Another process may still commit the group, so the session must end before the next commit.
    if (isOfLock(error)) throw new StoreUnavailable("other processes commit for too long", { cause: error });
    throw error;
  }
}

interface Session {
  readonly query: SqlQuery;
  readonly schema: string;
  readonly session: number;
}

/**
 * Ends a session: later commits of the session are refused, even if their statements are still in transit. A commit
 * that was reported as failed must not happen after a later, acknowledged one. This changes the head, so it also proves
 * that durable writes work.
 */
export async function endSession({ query, schema, session }: Session): Promise<void> {
  await query(
    `with head as (update ${schema}.head set pruned = pruned returning true),
      old as (delete from ${schema}.ended_session where since < now() - interval '1 hour')
    insert into ${schema}.ended_session (session) select $1 from head on conflict do nothing`,
    [session],
  );
}

function judged(
  group: readonly CommitRequest[],
  [base, refused, staleKeys, staleRevisions]: CommitAnswer,
): GroupResult {
  const stale = new Map<number, StaleWrite>();
  for (const [i, nth] of (refused ?? []).entries()) {
    const key = staleKeys?.[i]?.toString() ?? "";
    if (!stale.has(nth)) stale.set(nth, new StaleWrite({ key, current: Number(staleRevisions?.[i]) }));
  }
  const commits: Commit[] = [];
  const outcomes = group.map(({ changes }, i): CommitOutcome => {
    const refusal = stale.get(i + 1);
    if (refusal !== undefined) return refusal;
    const revision = base + commits.length + 1;
    commits.push({ revision, changes });
    return revision;
  });
  return { base, outcomes, commits };
}

/**
 * Returns the columns of what the commits change, expect and require to be empty; each row has the number of its
 * commit, from 1.
 */
function argumentsOf(group: readonly CommitRequest[]): Buffer[] {
  const changed = { keys: [] as Buffer[], values: [] as (Uint8Array | undefined)[], of: [] as number[] };
  const changesExpect: (number | undefined)[] = [];
  const expected = { keys: [] as Buffer[], revisions: [] as number[], of: [] as number[] };
  const empty = { from: [] as Buffer[], to: [] as Buffer[], of: [] as number[] };
  for (const [i, { changes, conditions }] of group.entries()) {
    for (const { key, value, expect } of changes) {
      changed.keys.push(Buffer.from(key));
      changed.values.push(value);
      changed.of.push(i + 1);
      changesExpect.push(expect);
    }
    for (const { key, expect } of expectationsOf({ changes: [], conditions })) {
      expected.keys.push(Buffer.from(key));
      expected.revisions.push(expect);
      expected.of.push(i + 1);
    }
    for (const { from, to } of emptiesOf({ changes, conditions })) {
      empty.from.push(Buffer.from(from));
      empty.to.push(Buffer.from(to));
      empty.of.push(i + 1);
    }
  }
  // An empty array tells the server that there is nothing to compare.
  const revisions = bigintArray(changesExpect.some((expect) => expect !== undefined) ? changesExpect : []);
  return [
    ...[byteaArray(changed.keys), byteaArray(changed.values), integerArray(changed.of), revisions],
    ...[byteaArray(expected.keys), bigintArray(expected.revisions), integerArray(expected.of)],
    ...[byteaArray(empty.from), byteaArray(empty.to), integerArray(empty.of)],
  ];
}

/** Keeps only the last change of each key, but all expectations on it. */
function withEachKeyOnce(asked: CommitRequest): CommitRequest {
  const { changes, conditions } = asked;
  if (changes.length < 2) return asked;
  const last = new Map(changes.map(({ key, value }): [string, Change] => [key, { key, value }]));
  if (last.size === changes.length) return asked;
  return { changes: [...last.values()], conditions: [...conditions, ...expectationsOf({ changes, conditions: [] })] };
}
