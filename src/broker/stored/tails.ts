import { setImmediate as nextTurn } from "node:timers/promises";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Commit, Store, Watch } from "../../store/contract.ts";
import { under as keysUnder } from "../../store/keys.ts";
import type { Records } from "../../store/records.ts";

/** A step of a tail. A gap says how many changes were left out at most; 0 if that is unknown. */
export type TailStep<T> =
  | { readonly kind: "resumed" | "progress"; readonly revision: number }
  | { readonly kind: "put"; readonly value: T }
  | { readonly kind: "gap"; readonly missed: number };

export interface TailRequest<T> {
  /** The first key parts of the followed records. */
  readonly under: readonly string[];
  readonly isWanted: (value: T) => boolean;
  readonly signal: AbortSignal;
}

/** Yields each new or changed record from now on, until the signal aborts. A slow reader gets a gap. */
export type Tail = <T>(records: Records<T>, request: TailRequest<T>) => AsyncGenerator<TailStep<T>>;

/** Limits what may wait for a reader. The oldest changes are left out first. */
const maxWaiting = 1_000;
const maxWaitingBytes = 4 * 1024 * 1024;
/** Limits the open tails of a process. */
const maxTails = 256;
const progressEveryMs = 30_000;
/** Records that are decoded in one go; other work runs in between. */
const decodedAtOnce = 50;

export function createTails({ store, world }: { readonly store: Store; readonly world: World }): Tail {
  let count = 0;

  return async function* tail(records, { under, isWanted, signal }) {
    if (count >= maxTails) throw new Fault("overloaded", "too many live views are open; try again later");
    const waiting = createWaiting(keysUnder(records.name, ...under).from);
    const follow = (): Promise<Watch> =>
      store.watch(store.status().revision, {
        spaces: [records.name],
        onCommit: waiting.add,
        onLost: waiting.lose,
      });
    count += 1;
    world.metrics.watchers.inc();
    signal.addEventListener("abort", waiting.wake);
    let watch: Watch | undefined;
    try {
      watch = await follow();
      yield { kind: "resumed", revision: store.status().revision };
      let toldMs = performance.now();
      for (let decoded = 0; !signal.aborted; ) {
        const next = waiting.take();
        if (next === undefined) {
          if (await waiting.woken(progressEveryMs - (performance.now() - toldMs))) continue;
          yield { kind: "progress", revision: store.status().revision };
        } else if (next.kind === "gap") {
          if (next.isLost) watch = await follow();
          yield next;
        } else {
          decoded += 1;
          if (decoded % decodedAtOnce === 0) await nextTurn();
          const value = records.read(next, next.revision)?.value;
          if (value === undefined || !isWanted(value)) continue;
          yield { kind: "put", value };
        }
        toldMs = performance.now();
      }
    } finally {
      signal.removeEventListener("abort", waiting.wake);
      watch?.close();
      world.metrics.watchers.dec();
      count -= 1;
    }
  };
}

/** A change that waits. Its bytes belong to the store, and are in memory once for any number of tails. */
interface WaitingChange {
  readonly kind: "change";
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
}

interface TailBacklog {
  readonly add: (commit: Commit) => void;
  /** The store no longer knows the next changes, and its watch has ended. */
  readonly lose: () => void;
  take(): WaitingChange | { readonly kind: "gap"; readonly missed: number; readonly isLost: boolean } | undefined;
  /** Resolves to true at the next event, or to false after this time. */
  woken(ms: number): Promise<boolean>;
  readonly wake: () => void;
}

function createWaiting(prefix: string): TailBacklog {
  let changes: WaitingChange[] = [];
  let taken = 0;
  let bytes = 0;
  let missed = 0;
  let isLost = false;
  let wakeUp = () => {};

  function takeOldest(): WaitingChange | undefined {
    const oldest = changes[taken];
    if (oldest === undefined) return undefined;
    taken += 1;
    bytes -= oldest.value.length;
    // Remove taken changes in large pieces: removing one by one would move the whole rest each time.
    if (taken === changes.length || taken >= maxWaiting) {
      changes = changes.slice(taken);
      taken = 0;
    }
    return oldest;
  }

  return {
    add({ changes: all, revision }) {
      for (const { key, value } of all) {
        if (value === undefined || !key.startsWith(prefix)) continue;
        changes.push({ kind: "change", key, value, revision });
        bytes += value.length;
        while (changes.length - taken > maxWaiting || bytes > maxWaitingBytes) {
          takeOldest();
          missed += 1;
        }
      }
      wakeUp();
    },
    lose() {
      changes = [];
      taken = 0;
      bytes = 0;
      isLost = true;
      wakeUp();
    },
    take() {
      if (!isLost && missed === 0) return takeOldest();
      const gap = { kind: "gap" as const, missed: isLost ? 0 : missed, isLost };
      missed = 0;
      isLost = false;
      return gap;
    },
    woken: (ms) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => resolve(false), Math.max(0, ms));
        wakeUp = () => {
          clearTimeout(timer);
          resolve(true);
        };
      }),
    wake: () => wakeUp(),
  };
}
