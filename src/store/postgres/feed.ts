import type { Log } from "../../base/log.ts";
import { type Commit, StoreUnavailable } from "../contract.ts";
import type { History } from "../history.ts";
import { byteaArray } from "./arrays.ts";
import type { SqlQuery } from "./connections.ts";
import type { FollowedSpaces } from "./followed-spaces.ts";
import { hasMarkSql, lostUpToSql, type Mark } from "./marks.ts";
import type { FoundStore } from "./schema.ts";
import { createServerClock } from "./server-clock.ts";

/**
 * Reads other processes' commits into the history. Reads and commits of this process alternate, so that the history
 * stays in order.
 */
export interface Feed {
  /**
   * Reads a limited number of commits, up to the head or to the revision before `before`. Returns whether it reached
   * the end.
   */
  readSome(before?: number): Promise<boolean>;
  /** Adds commits that this process made on top of `base`, after reading those of others before `base`. */
  takeIn(own: OwnCommits): Promise<void>;
  /** The newest head seen, by a read or a commit of this process; undefined if none yet. */
  readonly seen: Mark | undefined;
  /** Watchers may have seen commits up to this revision that the server has since lost; 0: none. */
  readonly lostUpTo: number;
  /** Returns the estimated current time of the server's clock, in milliseconds. */
  serverNow(): number;
  /** Where the store was moved, if it was. */
  readonly movedTo: string | undefined;
}

interface OwnCommits {
  readonly base: number;
  readonly commits: readonly Commit[];
  /** The mark stored with the last commit. */
  readonly mark: number;
}

interface PostgresFeedOptions {
  readonly query: SqlQuery;
  readonly schema: string;
  readonly found: FoundStore;
  readonly history: History;
  readonly followed: FollowedSpaces;
  readonly log: Log;
}

/** Entries per read; the last revision of a read is always complete. */
const pieceEntries = 500;

type FeedHead = readonly [
  head: number,
  pruned: number,
  storeId: string,
  movedTo: string | null,
  isStandby: boolean,
  timeline: string | null,
  now: number,
  mark: number | null,
  hasMark: boolean,
  lostUpTo: number,
];
const headColumns = 10;
type Changed = readonly [key: Buffer | null, value: Buffer | null, revision: number | null];
type FeedRow = readonly [...FeedHead, ...Changed];

export function createFeed({ query, schema, found, history, followed, log }: PostgresFeedOptions): Feed {
  let timeline: string | null | undefined;
  let movedTo: string | undefined;
  let seen: Mark | undefined;
  let lostUpTo = 0;
  /** The loss has yet to be stored on the server. */
  let isLossUnrecorded = false;
  const clock = createServerClock();
  const statement = feedSql(schema, found.timelineSql);

  /** Reports whether all commits after the last seen revision are known; if not, watchers are notified. */
  function isUnbroken([head, pruned, , , , at, , mark, hasMark]: FeedHead): boolean {
    const known = history.revision;
    const isOtherTimeline = timeline !== undefined && timeline !== at;
    const isLost = head < known || (!hasMark && pruned <= known);
    timeline = at;
    // Another server may have lost commits, even if no mark can show it.
    if (isLost || (isOtherTimeline && seen?.value == null)) {
      lostUpTo = Math.max(lostUpTo, known, seen?.revision ?? 0);
      isLossUnrecorded = true;
    }
    seen = { revision: head, value: mark };
    if (isLost) {
      const message = "the server was reset to an older state and may lack the last commits; reading everything again";
      log.error(message, { seen: known, found: head });
    } else if (isOtherTimeline) {
      log.error("the server was replaced by another one, which may lack the last commits; reading everything again", {
        seen: known,
        found: head,
      });
    } else if (pruned <= known) {
      return true;
    }
    beginAgain({ history, followed }, head);
    return false;
  }

  /** Stores the loss on the server: other replicas must know as well up to which revision no watch can resume. */
  async function recordLoss(): Promise<void> {
    await query(`insert into ${schema}.loss (up_to) values ($1) on conflict do nothing`, [lostUpTo]);
    isLossUnrecorded = false;
  }

  async function readSome(before = Number.MAX_SAFE_INTEGER): Promise<boolean> {
    const askedAt = performance.now();
    const { names } = followed;
    const spaces = names && byteaArray(names.map((name) => Buffer.from(name)));
    const rows = await query<FeedRow>(statement, [history.revision, before, seen?.revision, seen?.value, spaces]);
    // Changes of a space that was added in the meantime may be missing.
    if (followed.names !== names) return readSome(before);
    const [first] = rows;
    if (first === undefined) throw new StoreUnavailable("the store has no head");
    const head = first.slice(0, headColumns) as unknown as FeedHead;
    requireSameStore(head, found);
    movedTo = head[3] ?? undefined;
    clock.set(head[6], askedAt);
    lostUpTo = Math.max(lostUpTo, head[9]);
    const unbroken = isUnbroken(head);
    if (isLossUnrecorded) await recordLoss();
    if (!unbroken) return true;
    for (const commit of commitsIn(rows)) history.add(commit);
    if (rows.length >= pieceEntries) return false;
    // A revision without entries: later commits replaced all its changes, or they are of other spaces.
    const upTo = Math.min(head[0], before - 1);
    if (upTo > history.revision) history.add({ revision: upTo, changes: [] });
    return true;
  }

  return {
    readSome,
    async takeIn({ base, commits, mark }) {
      if (commits.length === 0) return;
      if (history.revision > base) {
        log.error("the server lost commits that it had acknowledged", { seen: history.revision, found: base });
        beginAgain({ history, followed }, base);
      }
      while (history.revision < base) {
        const isThere = await readSome(base + 1);
        if (isThere && history.revision < base)
          throw new StoreUnavailable("the server lost a commit that it had just written");
      }
      // After a break, the history starts after these commits, and watchers read everything again.
      for (const commit of commits) if (commit.revision > history.revision) history.add(commit);
      const last = base + commits.length;
      if (seen === undefined || seen.revision <= last) seen = { revision: last, value: mark };
    },
    get seen() {
      return seen;
    },
    get lostUpTo() {
      return lostUpTo;
    },
    serverNow: clock.now,
    get movedTo() {
      return movedTo;
    },
  };
}

/** Forgets what is known, and notifies watchers. */
function beginAgain({ history, followed }: Pick<PostgresFeedOptions, "history" | "followed">, at: number): void {
  followed.restart(at);
  history.lose(at);
}

/** The first part of a key. */
const spaceSql = "substring(key from 1 for position('\\x00'::bytea in key || '\\x00'::bytea) - 1)";

/** Reads the head and the changes in one snapshot. */
const feedSql = (schema: string, timelineSql: string): string => `
  select head.*, entry.key, entry.value, entry.revision
  from (
    select revision as head, pruned, store_id, moved_to, pg_is_in_recovery(), ${timelineSql},
      extract(epoch from clock_timestamp())::float8 * 1000,
      (select mark.value from ${schema}.mark where mark.revision = head.revision),
      ${hasMarkSql(schema, { revision: "$3", value: "$4" })},
      ${lostUpToSql(schema)}
    from ${schema}.head order by revision desc limit 1
  ) as head
  left join lateral (
    select key, value, revision from ${schema}.entry where revision > $1 and revision < $2
      and ($5::bytea[] is null or ${spaceSql} = any ($5))
    order by revision fetch first ${pieceEntries} rows with ties
  ) as entry on true
  order by entry.revision, entry.key`;

function requireSameStore([, , storeId, , isStandby]: FeedHead, found: FoundStore): void {
  if (isStandby) throw new StoreUnavailable("the server has become a standby");
  if (storeId !== found.storeId) throw new StoreUnavailable("the schema now holds another store");
}

/** Groups the changed entries by revision. */
function* commitsIn(rows: readonly FeedRow[]): Generator<Commit> {
  let changes: { key: string; value: Uint8Array | undefined }[] = [];
  for (const [i, row] of rows.entries()) {
    const [key, value, revision] = row.slice(headColumns) as unknown as Changed;
    if (key === null || revision === null) continue;
    changes.push({ key: key.toString(), value: value ?? undefined });
    if (rows[i + 1]?.[headColumns + 2] === revision) continue;
    yield { revision, changes };
    changes = [];
  }
}
