import type { World } from "../../../base/world.ts";
import type { Commit, Entry, Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, keyOf, under } from "../../../store/keys.ts";
import { forwardSpace, waitingSpace } from "../webhook-collections.ts";
import { type CommittedForward, CommittedForwards } from "./committed-forwards.ts";
import { type DestinationRef, type QueuedForward, readQueued } from "./queued-forward.ts";
import { WaitingForwards } from "./waiting-forwards.ts";

/** All waiting forwards, in memory, with only the fields that are needed to choose the next one. */
export interface Outbox {
  readonly size: number;
  /** Returns how many forwards wait for one destination. */
  sizeAt(destination: DestinationRef): number;
  /** Returns whether the queue of a destination is short enough that a new forward is sent soon and worth caching. */
  isSoon(destination: DestinationRef): boolean;
  /** Returns the creation time of the oldest waiting forward; undefined if none waits. */
  oldestMs(): number | undefined;
  all(): Iterable<QueuedForward>;
  /**
   * Returns the forward as last committed, if known here. Cached only for forwards that were to be sent soon when they
   * arrived.
   */
  committed(waiting: Pick<QueuedForward, "name">): CommittedForward | undefined;
  /** Drops a cached forward that turned out to be outdated. */
  forgetCommitted(waiting: Pick<QueuedForward, "environment" | "id">): void;
  /** Reports each forward that starts to wait or whose due time changes, and each that no longer waits. */
  listen(listener: OutboxListener): void;
  close(): void;
}

export interface OutboxListener {
  onWaiting(waiting: QueuedForward): void;
  onGone(waiting: QueuedForward): void;
}

interface OutboxOptions {
  readonly store: Store;
  readonly world: World;
}

const pageEntries = 2_000;
const prefix = `${waitingSpace}\0`;
const forwardPrefix = `${forwardSpace}\0`;
/** Above this queue length, forwards are not cached but read from the store when due, which may never happen. */
const soonBehind = 1_000;
export async function openOutbox({ store, world }: OutboxOptions): Promise<Outbox> {
  const waiting = new WaitingForwards();
  const committed = new CommittedForwards();
  const listeners: OutboxListener[] = [];
  const depth = world.metrics.outboxForwards.series({});

  const isSoon = (destination: DestinationRef) => waiting.sizeAt(destination) < soonBehind;

  function put(found: QueuedForward): void {
    waiting.put(found);
    depth.value = waiting.size;
    for (const { onWaiting } of listeners) onWaiting(found);
  }

  function take(name: string): void {
    const taken = waiting.take(name);
    if (taken === undefined) return;
    depth.value = waiting.size;
    for (const { onGone } of listeners) onGone(taken);
  }

  function onCommit({ changes, revision }: Commit): void {
    let forward: CommittedForward["change"] | undefined;
    let nameOfForward = "";
    for (const change of changes) {
      const { key } = change;
      if (key.startsWith(forwardPrefix)) {
        // The waiting entry of a forward follows the forward in the commit, unless that entry did not change.
        forward = change;
        nameOfForward = key.slice(forwardPrefix.length);
        committed.remove(nameOfForward);
        continue;
      }
      if (!key.startsWith(prefix)) continue;
      const isOfForward = key.length === prefix.length + nameOfForward.length && key.endsWith(nameOfForward);
      // The same text: it is hashed once for all maps.
      const name = isOfForward ? nameOfForward : key.slice(prefix.length);
      // Decrypts the value on first access.
      const { value } = change;
      if (value === undefined) {
        take(name);
        continue;
      }
      const found = readQueued(name, value);
      if (forward !== undefined && isOfForward && isSoon(found)) {
        committed.put(name, { change: forward, revision });
      }
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
        found.set(name, readQueued(name, value));
      }
      return () => {
        committed.clear();
        for (const name of [...waiting.names()]) if (!found.has(name)) take(name);
        for (const one of found.values()) put(one);
      };
    },
    onCommit,
  });

  return {
    get size() {
      return waiting.size;
    },
    sizeAt: (destination) => waiting.sizeAt(destination),
    isSoon,
    oldestMs: () => waiting.oldest()?.createdMs,
    all: () => waiting.all(),
    committed: ({ name }) => committed.get(name),
    forgetCommitted: ({ environment, id }) => committed.remove(keyOf(environment, id)),
    listen: (listener) => void listeners.push(listener),
    close: () => watch.close(),
  };
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
