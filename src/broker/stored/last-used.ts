import { fromBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { bytesFor } from "../../base/message-bytes.ts";
import type { World } from "../../base/world.ts";
import { TouchSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Entry, type Store, StoreUnavailable } from "../../store/contract.ts";

/**
 * Last-used times of things. Stored apart from the thing, so that using a thing never changes it. Written in the
 * background, at most once a minute per thing, so that use costs no write. A crash loses a few seconds of these times.
 */
export interface LastUsedTimes {
  touch(thing: UsedThing, nowMs?: number): void;
  lastOf(keys: readonly string[]): Promise<readonly (number | undefined)[]>;
  close(): Promise<void>;
}

/**
 * A thing that is used, kept by the code that uses it: a thing that is used often is looked up once a minute, not every
 * time.
 */
export interface UsedThing {
  readonly key: string;
  /** Written only by `touch`. */
  at: number;
}

export const touchedBy = (key: string): UsedThing => ({ key, at: 0 });

const stepMs = 60_000;
const flushEveryMs = 5_000;
/** Writes many times in slices: a thousand at once delay every request by 5 to 10 ms. */
const sliceEveryMs = 50;
const minSlice = 50;
/** Limits the cache that avoids repeated writes. Clearing a full cache at worst writes a time twice. */
const maxRemembered = 100_000;

const bytesOf = bytesFor(TouchSchema);

export function createLastUsedTimes({ store, world }: { store: Store; world: World }): LastUsedTimes {
  const remembered = new Map<string, number>();
  const unwritten = new Map<string, number>();
  /** Time of the last failed write: some earlier times were not written. */
  let lostAt = 0;
  /** Times that are being written in slices. */
  const due: (readonly [string, number])[] = [];
  let slice = 0;
  let slicing: NodeJS.Timeout | undefined;
  const timer = setInterval(() => {
    takeAll();
    slice = Math.max(minSlice, Math.ceil((due.length * sliceEveryMs) / flushEveryMs));
    if (due.length === 0) return;
    slicing ??= setInterval(writeSlice, sliceEveryMs).unref();
    writeSlice();
  }, flushEveryMs);
  timer.unref();

  function writeSlice(): void {
    void write(due.splice(0, slice));
    if (due.length > 0) return;
    clearInterval(slicing);
    slicing = undefined;
  }

  function takeAll(): void {
    for (const used of unwritten) due.push(used);
    unwritten.clear();
  }

  async function write(taken: readonly (readonly [string, number])[]): Promise<void> {
    if (taken.length === 0) return;
    const changes = taken.map(([key, at]) => ({
      key,
      value: bytesOf({ $typeName: "latchkey.stored.v1.Touch", at: timestampFromMs(at) }),
    }));
    try {
      await store.commit(changes);
    } catch (error) {
      // Do not retry: the store has more important work. The next use records the time again.
      world.log.warn("last-used times not written; the next use records them", { count: changes.length, err: error });
      for (const [key] of taken) remembered.delete(key);
      lostAt = world.now();
    }
  }

  return {
    touch(thing, now = world.now()) {
      if (now - thing.at < stepMs && thing.at > lostAt) return;
      thing.at = now;
      const { key } = thing;
      const last = remembered.get(key);
      if (last !== undefined && now - last < stepMs) return;
      if (remembered.size >= maxRemembered) remembered.clear();
      remembered.set(key, now);
      unwritten.set(key, now);
    },
    async lastOf(keys) {
      const isKnown = keys.every((key) => remembered.has(key));
      const stored = isKnown ? [] : await store.getMany(keys).catch(unlessUnavailable);
      return keys.map((key, i) => {
        const entry = stored[i];
        const at = entry === undefined ? undefined : fromBinary(TouchSchema, entry.value).at;
        return unwritten.get(key) ?? remembered.get(key) ?? (at === undefined ? undefined : timestampMs(at));
      });
    },
    async close() {
      clearInterval(timer);
      clearInterval(slicing);
      takeAll();
      await write(due);
    },
  };
}

/** A store that cannot be read must not hide a connection that is in memory: its last-used time matters less. */
function unlessUnavailable(error: unknown): readonly (Entry | undefined)[] {
  if (error instanceof StoreUnavailable) return [];
  throw error;
}
