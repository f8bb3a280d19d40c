import { fromBinary } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { type StoredForward_Address, WaitingForwardSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Commit, Entry, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { after, keyOf, partsOf, under } from "../../store/keys.ts";
import { forwardSpace, waitingSpace } from "./webhook-collections.ts";

/** All waiting forwards, in memory, with only the fields that are needed to choose the next one. */
export interface Outbox {
  readonly size: number;
  /** Returns how many forwards wait for one destination. */
  sizeAt(destination: Heading): number;
  /** Returns whether the queue of a destination is short enough that a new forward is sent soon and worth caching. */
  isSoon(destination: Heading): boolean;
  /** Returns the creation time of the oldest waiting forward; undefined if none waits. */
  oldestMs(): number | undefined;
  all(): Iterable<QueuedForward>;
  /**
   * Returns the forward as last committed, if known here. Cached only for forwards that were to be sent soon when they
   * arrived.
   */
  rowOf(waiting: Pick<QueuedForward, "name">): ForwardRow | undefined;
  /** Drops a cached row that turned out to be outdated. */
  forgetRow(waiting: Pick<QueuedForward, "environment" | "id">): void;
  /** Reports each forward that starts to wait or whose due time changes, and each that no longer waits. */
  listen(listener: OutboxListener): void;
  close(): void;
}

export interface OutboxListener {
  onWaiting(waiting: QueuedForward): void;
  onGone(waiting: QueuedForward): void;
}

export interface QueuedForward {
  /** Environment and id in one string. */
  readonly name: string;
  readonly environment: string;
  readonly id: string;
  readonly dueMs: number;
  /** Time when the due time was set. The forward waits at most from `sinceMs` to `dueMs`, however the clock changes. */
  readonly sinceMs: number;
  readonly createdMs: number;
  readonly address: StoredForward_Address;
  readonly overrideUrl: string;
  readonly lane: string;
  readonly number: string;
  /** True before the first attempt. */
  readonly first: boolean;
}

/** A forward as it was committed. */
export interface ForwardRow {
  readonly change: Pick<Change, "key" | "value">;
  readonly revision: number;
}

/** Destination of a forward. */
export type Heading = Pick<QueuedForward, "environment" | "address" | "overrideUrl">;

export const headingKey = ({ environment, address, overrideUrl }: Heading): string =>
  `${environment}\0${address}\0${overrideUrl}`;

interface OutboxOptions {
  readonly store: Store;
  readonly world: World;
}

const pageEntries = 2_000;
const prefix = `${waitingSpace}\0`;
const forwardPrefix = `${forwardSpace}\0`;
/** Above this queue length, forwards are not cached but read from the store when due, which may never happen. */
const soonBehind = 1_000;
/**
 * Limits the cached rows of all destinations together. The oldest are evicted first, such as those of a destination
 * that accepts none.
 */
const mostRows = 1_000;

export async function openOutbox({ store, world }: OutboxOptions): Promise<Outbox> {
  /** Waiting forwards by name. */
  const waiting = new Map<string, QueuedForward>();
  const sizes = new Map<string, number>();
  /** Cached rows by name. */
  const rows = new Map<string, OutboxEntry>();
  const listeners: OutboxListener[] = [];
  const depth = world.metrics.outboxForwards.series({});
  /** The oldest waiting forward. Undefined: search all waiting forwards, if there are any. */
  let firstMade: QueuedForward | undefined;

  function count(of: Heading, by: 1 | -1): void {
    const key = headingKey(of);
    const size = (sizes.get(key) ?? 0) + by;
    if (size === 0) sizes.delete(key);
    else sizes.set(key, size);
  }

  const sizeAt = (destination: Heading) => sizes.get(headingKey(destination)) ?? 0;
  const isSoon = (destination: Heading) => sizeAt(destination) < soonBehind;

  function put(found: QueuedForward): void {
    const before = waiting.get(found.name);
    if (before !== undefined) count(before, -1);
    count(found, 1);
    waiting.set(found.name, found);
    if (before !== undefined && before === firstMade) firstMade = undefined;
    else if (firstMade !== undefined && found.createdMs < firstMade.createdMs) firstMade = found;
    depth.value = waiting.size;
    for (const { onWaiting } of listeners) onWaiting(found);
  }

  function take(name: string): void {
    const gone = waiting.get(name);
    if (gone === undefined) return;
    waiting.delete(name);
    if (gone === firstMade) firstMade = undefined;
    count(gone, -1);
    depth.value = waiting.size;
    for (const { onGone } of listeners) onGone(gone);
  }

  /**
   * Clears the large value of an evicted row. After a Map grows or compacts, its previous table still references the
   * old entries. Once one table is in the old generation, each later table is kept until a full collection.
   */
  function forgetRow(name: string): void {
    const row = rows.get(name);
    if (row === undefined) return;
    row.of = undefined;
    rows.delete(name);
  }

  function keepRow(name: string, of: ForwardRow): void {
    const [oldest] = rows.size < mostRows ? [] : rows.keys();
    if (oldest !== undefined) forgetRow(oldest);
    rows.set(name, { of });
  }

  function onCommit({ changes, revision }: Commit): void {
    let forward: ForwardRow["change"] | undefined;
    let nameOfIt = "";
    for (const change of changes) {
      const { key } = change;
      if (key.startsWith(forwardPrefix)) {
        // The waiting entry of a forward follows the forward in the commit, unless that entry did not change.
        forward = change;
        nameOfIt = key.slice(forwardPrefix.length);
        forgetRow(nameOfIt);
        continue;
      }
      if (!key.startsWith(prefix)) continue;
      const name = key.slice(prefix.length);
      // Decrypts the value on first access.
      const { value } = change;
      if (value === undefined) {
        take(name);
        continue;
      }
      const found = readWaiting(name, value);
      if (forward !== undefined && name === nameOfIt && isSoon(found)) keepRow(name, { change: forward, revision });
      put(found);
    }
  }

  const watch = await follow({
    store,
    world,
    spaces: [forwardSpace, waitingSpace],
    async read() {
      const found = new Map<string, QueuedForward>();
      for await (const { key, value } of everyWaiting(store)) {
        const name = key.slice(prefix.length);
        found.set(name, readWaiting(name, value));
      }
      return () => {
        rows.clear();
        for (const name of [...waiting.keys()]) if (!found.has(name)) take(name);
        for (const one of found.values()) put(one);
      };
    },
    onCommit,
  });

  return {
    get size() {
      return waiting.size;
    },
    sizeAt,
    isSoon,
    oldestMs() {
      if (firstMade === undefined) {
        for (const one of waiting.values()) {
          if (firstMade === undefined || one.createdMs < firstMade.createdMs) firstMade = one;
        }
      }
      return firstMade?.createdMs;
    },
    all: () => waiting.values(),
    rowOf: ({ name }) => rows.get(name)?.of,
    forgetRow: ({ environment, id }) => forgetRow(keyOf(environment, id)),
    listen: (listener) => void listeners.push(listener),
    close: () => watch.close(),
  };
}

interface OutboxEntry {
  of: ForwardRow | undefined;
}

async function* everyWaiting(store: Store): AsyncGenerator<Entry> {
  const range = under(waitingSpace);
  for (let { from } = range; ; ) {
    const page = await store.list({ from, to: range.to, limit: pageEntries });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < pageEntries) return;
    from = after(last.key);
  }
}

function readWaiting(name: string, value: Uint8Array): QueuedForward {
  const [environment = "", id = ""] = partsOf(name);
  // Fields are listed explicitly: rest and spread of this many fields take longer than decoding them.
  const { address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first } = fromBinary(
    WaitingForwardSchema,
    value,
  );
  return { name, environment, id, address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first };
}
