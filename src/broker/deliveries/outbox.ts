import { fromBinary } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { type StoredForward_Address, WaitingForwardSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Commit, Entry, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { after, keyOf, partsOf, under } from "../../store/keys.ts";
import { forwardSpace, waitingSpace } from "../collections.ts";

/** Every forward that waits, in memory: as much of it as is needed to know whose turn it is. */
export interface Outbox {
  readonly size: number;
  /** How many wait for one destination. */
  sizeAt(destination: Heading): number;
  /** Whether so few wait for it that what comes now is soon on its way: what it needs is worth keeping in memory. */
  isSoon(destination: Heading): boolean;
  /** When the one that has waited longest was made; undefined when none waits. */
  oldestMs(): number | undefined;
  all(): Iterable<QueuedForward>;
  /** As it was committed last, by all that was told here: of those that were soon on their way when they came. */
  rowOf(waiting: Pick<QueuedForward, "name">): ForwardRow | undefined;
  /** It turned out not to be that. */
  forgetRow(waiting: Pick<QueuedForward, "environment" | "id">): void;
  /** Told of each one that comes to wait, or whose time has changed, and of each that waits no more. */
  listen(listener: OutboxListener): void;
  close(): void;
}

export interface OutboxListener {
  onWaiting(waiting: QueuedForward): void;
  onGone(waiting: QueuedForward): void;
}

export interface QueuedForward {
  /** Its environment and its id, as one. */
  readonly name: string;
  readonly environment: string;
  readonly id: string;
  readonly dueMs: number;
  /** When that was settled: from then to when it is due is the longest it waits, whatever becomes of the clock. */
  readonly sinceMs: number;
  readonly createdMs: number;
  readonly address: StoredForward_Address;
  readonly overrideUrl: string;
  readonly lane: string;
  readonly number: string;
  /** It has not been tried yet. */
  readonly first: boolean;
}

/** A forward as it was committed. */
export interface ForwardRow {
  readonly change: Pick<Change, "key" | "value">;
  readonly revision: number;
}

/** Where a forward goes. */
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
/** Behind as many it takes a while: what comes then is read when it is its turn, which may never be. */
const soonBehind = 1_000;
/** Of all destinations together: beyond it those go that came first, as of one that takes none. */
const mostRows = 1_000;

export async function openOutbox({ store, world }: OutboxOptions): Promise<Outbox> {
  /** By name. */
  const waiting = new Map<string, QueuedForward>();
  const sizes = new Map<string, number>();
  /** By name. */
  const rows = new Map<string, OutboxEntry>();
  const listeners: OutboxListener[] = [];
  const depth = world.metrics.outboxForwards.series({});
  /** Undefined: it is among all that wait, if any does. */
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
   * What a Map held when it grew or was tidied up, its former table still names; and once one table is old, each that
   * follows is kept until everything is collected. So what is taken out lets go of what is large.
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
        // What the outbox knows of it comes behind it, unless that stays as it was.
        forward = change;
        nameOfIt = key.slice(forwardPrefix.length);
        forgetRow(nameOfIt);
        continue;
      }
      if (!key.startsWith(prefix)) continue;
      const name = key.slice(prefix.length);
      // A value is opened when it is looked at.
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
  // Written out: a rest and a spread of as many fields take longer than to read them.
  const { address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first } = fromBinary(
    WaitingForwardSchema,
    value,
  );
  return { name, environment, id, address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first };
}
