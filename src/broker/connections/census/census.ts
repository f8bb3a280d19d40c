import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../../../base/world.ts";
import type { Entry, Store, Watch } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, partsOf, under } from "../../../store/keys.ts";
import { emptyingSpace } from "../../setup/setup-collections.ts";
import { censusEntry } from "./census-entry.ts";
import { type CensusGroup, createCensusGroups, type GroupQuery } from "./census-groups.ts";
import { type CensusRow, createCensusRows } from "./census-rows.ts";

/**
 * All connections in memory, by number, with integration, state and reason: counts them, and lists the newest first.
 * It is read from the store when first asked for, follows the store from then on, and is dropped when unused: a
 * sidecar without a dashboard pays nothing. A million connections take 25 to 40 MB.
 */
export interface ConnectionCensus {
  /** Resolves to whether the census is complete, after `waitMs` at the latest. */
  ready(waitMs: number): Promise<boolean>;
  /** The same, but waits only during the first `waitMs` of the reading: later callers would wait uselessly. */
  soonReady(waitMs: number): Promise<boolean>;
  /** The groups that match, as counted so far. */
  groups(query: GroupQuery): readonly Readonly<CensusGroup>[];
  /** Returns connections that match, newest first, with numbers below `before`. */
  newest(query: GroupQuery, page: { readonly before: number; readonly limit: number }): readonly NewestConnection[];
  readonly isComplete: boolean;
  /** Number of connections read so far. */
  readonly readSoFar: number;
  close(): void;
}

export interface NewestConnection {
  readonly number: number;
  readonly integration: string;
  readonly id: string;
}

interface CensusOptions {
  readonly store: Store;
  readonly world: World;
  /** Drops the census after this time without a call. */
  readonly idleMs?: number;
}

const pageSize = 500;
const idleDefaultMs = 15 * 60_000;
const connectionSpace = "connection";
const droppedSpace = "record-dropped-connection";
const emptyingPrefix = `${emptyingSpace}\0`;

export function createConnectionCensus({ store, world, idleMs = idleDefaultMs }: CensusOptions): ConnectionCensus {
  let counted = createTally();
  let opening: Promise<Watch> | undefined;
  let isComplete = false;
  let idle: NodeJS.Timeout | undefined;
  /** Distinguishes an opening from one that was dropped meanwhile. */
  let round = 0;
  let openedMs = 0;

  async function open(mine: number): Promise<Watch> {
    const watch = await follow({
      store,
      world,
      spaces: [connectionSpace, droppedSpace, emptyingSpace],
      async read() {
        const fresh = createTally();
        // While a first reading is under way, callers see how far it is.
        if (!isComplete) counted = fresh;
        await readAll(store, fresh, () => round !== mine);
        return () => {
          if (round === mine) counted = fresh;
        };
      },
      onCommit({ changes }) {
        if (round !== mine) return;
        // The emptying of an environment leaves no number behind: all is read again when next asked for.
        if (changes.some(({ key }) => key.startsWith(emptyingPrefix))) drop();
        else for (const change of changes) counted.note(change);
      },
    });
    if (round === mine) isComplete = true;
    return watch;
  }

  function drop(): void {
    clearTimeout(idle);
    const dropped = opening;
    opening = undefined;
    isComplete = false;
    round += 1;
    counted = createTally();
    dropped?.then((watch) => watch.close()).catch(() => {});
  }

  function keep(): Promise<Watch> {
    clearTimeout(idle);
    idle = setTimeout(drop, idleMs);
    idle.unref();
    if (opening === undefined) {
      const mine = round;
      openedMs = performance.now();
      opening = open(mine);
      opening.catch((err) => {
        if (round !== mine) return;
        drop();
        world.log.warn("could not read the connections to count them; the next call tries again", { err });
      });
    }
    return opening;
  }

  async function ready(waitMs: number): Promise<boolean> {
    const opened = keep();
    if (isComplete) return true;
    const stop = new AbortController();
    try {
      await Promise.race([opened, sleep(waitMs, undefined, { signal: stop.signal }).catch(() => {})]);
    } finally {
      stop.abort();
    }
    return isComplete;
  }

  return {
    ready,
    soonReady(waitMs) {
      keep().catch(() => {});
      return ready(Math.max(0, waitMs - (performance.now() - openedMs)));
    },
    groups: (query) => [...counted.groups.matching(query).values()],
    newest(query, { before, limit }) {
      const groups = counted.groups.matching(query);
      const found = counted.rows.newest({ before, limit, isWanted: (group) => groups.has(group) });
      return found.map(({ number, group, id }) => ({ number, id, integration: groups.get(group)?.integration ?? "" }));
    },
    get isComplete() {
      return isComplete;
    },
    get readSoFar() {
      return counted.rows.count;
    },
    close: drop,
  };
}

/** Reads all connections of the store, a page while the one before is counted. */
async function readAll(store: Store, into: ConnectionTally, isOver: () => boolean): Promise<void> {
  const { from, to } = under(connectionSpace);
  let page = store.list({ from, to, limit: pageSize });
  for (;;) {
    const found = await page;
    const last = found.at(-1);
    if (last === undefined || isOver()) return;
    const isLast = found.length < pageSize;
    if (!isLast) page = store.list({ from: after(last.key), to, limit: pageSize });
    for (const entry of found) into.note(entry);
    if (isLast) return;
  }
}

type ConnectionTally = ReturnType<typeof createTally>;

function createTally() {
  const groups = createCensusGroups();
  const rows = createCensusRows();

  function put(row: CensusRow): void {
    const before = rows.put(row);
    if (before === row.group) return;
    if (before !== undefined) groups.add(before, -1);
    groups.add(row.group, 1);
  }

  return {
    groups,
    rows,
    /**
     * Notes a stored connection, or that one was deleted. A deletion writes a key with the connection's number; the key
     * of the connection says too little, since another may have taken its name.
     */
    note({ key, value }: Pick<Entry, "key"> & { readonly value: Uint8Array | undefined }): void {
      const [space, ...parts] = partsOf(key);
      if (space === droppedSpace) {
        const before = rows.remove(Number(parts[0]));
        if (before !== undefined) groups.add(before, -1);
      } else if (space === connectionSpace && value !== undefined) {
        const [environment = "", integration = "", id = ""] = parts;
        const { number, state, reason } = censusEntry(value);
        put({ number, group: groups.numberOf({ environment, integration, state, reason }), id });
      }
    },
  };
}
