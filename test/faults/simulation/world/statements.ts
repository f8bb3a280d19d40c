import type { Contents, StoredRow } from "./contents.ts";
import { type Database, type Session, serverError } from "./database.ts";
import type { CommitGroup } from "./group-commits.ts";

type Row = readonly unknown[];
type Value = unknown;

interface Statement {
  readonly text: string;
  readonly values: readonly Value[];
  readonly session: Session;
  readonly database: Database;
}

type Answer = (statement: Statement) => readonly Row[] | Promise<readonly Row[]>;

/** Arrays in the server's binary format, as `arrays.ts` of the store writes them. */
function itemsOf(value: Value): (Buffer | undefined)[] {
  const bytes = value as Buffer;
  if (bytes.readInt32BE(0) === 0) return [];
  const items: (Buffer | undefined)[] = [];
  let at = 20;
  for (let left = bytes.readInt32BE(12); left > 0; left -= 1) {
    const length = bytes.readInt32BE(at);
    at += 4;
    items.push(length < 0 ? undefined : Buffer.from(bytes.subarray(at, at + length)));
    at += Math.max(0, length);
  }
  return items;
}

const keysIn = (value: Value) => itemsOf(value).map((item) => item?.toString("latin1") ?? "");
const integersIn = (value: Value) => itemsOf(value).map((item) => item?.readInt32BE(0) ?? 0);
const bigintsIn = (value: Value) => itemsOf(value).map((item) => item && Number(item.readBigInt64BE(0)));
const keyIn = (value: Value) => (value as Buffer).toString("latin1");
const bytesOf = (key: string) => Buffer.from(key, "latin1");
const rowOf = ({ key, value, revision }: StoredRow): Row => [bytesOf(key), value && Buffer.from(value), revision];
const spaceOf = (key: string) => key.slice(0, key.indexOf("\0") < 0 ? key.length : key.indexOf("\0"));

function groupIn(values: readonly Value[]): CommitGroup {
  const [count, keys, contents, of, revisions, expectedKeys, expectedRevisions, expectedOf, from, to, emptyOf] = values;
  const [due, session, seenRevision, seenMark, mark] = values.slice(11) as number[];
  const numbers = integersIn(of);
  const stored = itemsOf(contents);
  const changes = keysIn(keys).map((key, i) => ({ key, value: stored[i], of: numbers[i] ?? 0 }));
  const own = bigintsIn(revisions);
  const further = bigintsIn(expectedRevisions);
  const furtherOf = integersIn(expectedOf);
  const ends = keysIn(to);
  const emptiesOf = integersIn(emptyOf);
  return {
    count: count as number,
    changes,
    expected: [
      ...changes.map((change, i) => ({ key: change.key, revision: own[i], of: change.of })),
      ...keysIn(expectedKeys).map((key, i) => ({ key, revision: further[i], of: furtherOf[i] ?? 0 })),
    ],
    empties: keysIn(from).map((key, i) => ({ from: key, to: ends[i] ?? "", of: emptiesOf[i] ?? 0 })),
    due: due ?? 0,
    session: session ?? 0,
    seenRevision,
    seenMark,
    mark: mark ?? 0,
  };
}

const contentsOf = ({ database, session }: Statement): Contents => session.frozen ?? database.contents;
const hasMark = ({ marks }: Contents, revision: Value, mark: Value) =>
  mark === undefined || mark === null || marks.get(revision as number) === mark;

function feed({ database, values }: Statement): Row[] {
  const { contents, storeId, timeline } = database;
  const [after, before, seenRevision, seenMark, spaces] = values;
  const wanted = spaces === undefined || spaces === null ? undefined : new Set(keysIn(spaces));
  const head: Row = [
    ...[contents.revision, contents.pruned, storeId, null, false, String(timeline).padStart(8, "0")],
    ...[database.nowMs(), contents.marks.get(contents.revision) ?? null, hasMark(contents, seenRevision, seenMark)],
    Math.max(0, ...contents.losses),
  ];
  const found = contents.changesAfter(after as number, {
    before: before as number,
    limit: 500,
    isWanted: (key) => wanted === undefined || wanted.has(spaceOf(key)),
  });
  if (found.length === 0) return [[...head, null, null, null]];
  return found.map(({ key, value, revision }) => [...head, bytesOf(key), value ? Buffer.from(value) : null, revision]);
}

function page(statement: Statement): Row[] {
  const [from, to, limit] = statement.values;
  const end = to === undefined || to === null ? undefined : keyIn(to);
  const isReverse = statement.text.includes("order by key desc");
  const rows = contentsOf(statement).range(keyIn(from), end, isReverse);
  return rows.slice(0, limit as number).map(rowOf);
}

function listen({ text, session }: Statement): Row[] {
  session.channels.add(text.replace(/^listen /, "").trim());
  return [];
}

function begin({ session, database }: Statement): Row[] {
  session.frozen = database.contents.copy();
  return [];
}

function endTransaction({ session }: Statement): Row[] {
  session.frozen = undefined;
  return [];
}

function sessionsLike({ database, values }: Statement): Row[] {
  const found = database.sessions.get(values[0] as number);
  return found !== undefined && String(found.startedAt) === values[1] ? [[1]] : [];
}

/** The statements of the store by their beginnings; the first that fits is taken. */
const answers: readonly (readonly [RegExp, Answer])[] = [
  [/server_version_num/, () => [[150_000, "15.0", false, "read committed", "off", "on"]]],
  [/^select exists \(select from pg_class/, ({ values }) => [[values.length > 1]]],
  [/^select format from/, () => [[1]]],
  [/^select store_id, revision, moved_to/, ({ database }) => [[database.storeId, database.contents.revision, null]]],
  [/^select case when pg_is_in_recovery/, ({ database }) => [[String(database.timeline).padStart(8, "0")]]],
  [/left join lateral/, feed],
  [
    /commit_3\(/,
    async ({ database, session, values }) => [await database.commits.commit(groupIn(values), session.process)],
  ],
  [/commit_waiting\(/, async ({ database, values }) => [await database.commits.outcomeOf(values[0] as number)]],
  [
    /^with head as \(update/,
    ({ database, values }) =>
      database.write(() => void database.contents.endedSessions.add(values[0] as number)).then(() => []),
  ],
  [
    /^insert into \S+\.loss/,
    ({ database, values }) =>
      database.write(() => void database.contents.losses.add(values[0] as number)).then(() => []),
  ],
  [
    /^select revision, \(/,
    ({ database: { contents }, values }) => [[contents.revision, hasMark(contents, values[0], values[1])]],
  ],
  [
    /where key = any \(\$1\) and value is not null/,
    (statement) =>
      keysIn(statement.values[0])
        .flatMap((key) => contentsOf(statement).rows.get(key) ?? [])
        .filter(({ value }) => value !== undefined)
        .map(rowOf),
  ],
  [/bytes_before/, page],
  [/^select extract\(epoch from clock_timestamp/, ({ database }) => [[database.nowMs()]]],
  [
    /pg_notify/,
    ({ database, values }) => {
      database.notify(String(values[0]), String(values[1]));
      return [[]];
    },
  ],
  [/^select pg_backend_pid/, ({ session }) => [[session.id, String(session.startedAt)]]],
  [/^listen /, listen],
  [/from pg_stat_activity/, sessionsLike],
  [/^begin isolation/, begin],
  [/^set local/, () => []],
  [/pg_try_advisory_xact_lock/, () => [[true]]],
  [/^(commit|rollback)$/, endTransaction],
  [
    /^select exists \(select from \S+\.entry where value is null/,
    ({ database: { contents }, values }) => {
      const upTo = values[0] as number;
      const hasGone = [...contents.rows.values()].some((row) => row.value === undefined && row.revision <= upTo);
      return [[hasGone || [...contents.marks.keys()].some((revision) => revision < upTo)]];
    },
  ],
  [
    /^update \S+\.head set pruned/,
    ({ database, values }) =>
      database
        .write(() => {
          database.contents.pruned = Math.max(database.contents.pruned, values[0] as number);
        })
        .then(() => []),
  ],
  [
    /^delete from \S+\.mark/,
    ({ database: { contents }, values }) => {
      for (const revision of contents.marks.keys())
        if (revision < (values[0] as number)) contents.marks.delete(revision);
      return [];
    },
  ],
  [
    /^delete from \S+\.entry/,
    ({ database, values }) => Array.from({ length: database.contents.prune(values[0] as number) }, () => [true]),
  ],
  [/^delete from \S+\.(waiting_group|group_outcome)/, () => []],
  [/pg_total_relation_size/, () => [[1_000]]],
];

export async function execute(statement: Statement): Promise<readonly Row[]> {
  const text = statement.text.trim();
  const answer = answers.find(([pattern]) => pattern.test(text))?.[1];
  if (answer === undefined) throw serverError("42601", `the simulated server does not know: ${text.slice(0, 200)}`);
  return answer({ ...statement, text });
}
