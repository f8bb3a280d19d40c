import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { AccessSessionCollections } from "./access-session-collections.ts";

/** Counts the requests of access sessions. All replicas together never admit more than a session's budget. */
export interface AccessBudgets {
  /** Takes a request from what this replica holds; false if it holds none. */
  tryTake(id: string): boolean;
  /** Takes a request, from the store if need be. Resolves to false if the budget is used up. */
  take(id: string): Promise<boolean>;
  /** Draws several requests for an edge; 0 if the budget is used up. */
  draw(id: string): Promise<number>;
  /** Returns requests that an edge or this replica has not used. */
  giveBack(id: string, count: number): Promise<void>;
  /** Gives back what this replica holds. */
  close(): Promise<void>;
}

interface AccessBudgetsOptions {
  readonly store: Store;
  readonly collections: Pick<AccessSessionCollections, "accessSessionBudgets">;
  readonly world: Pick<World, "log">;
}

interface HeldSlice {
  left: number;
  drawing: Promise<void> | undefined;
  usedAtMs: number;
  /** Until then, the store is not asked again. */
  emptyUntilMs: number;
}

/** A slice is this part of what is left: replicas then take ever smaller slices, down to single requests. */
const sliceDivisor = 8;
const maxSlice = 1_000;
/** A slice that was not used for so long is given back, for the other replicas. */
const idleMs = 2_000;
/** For so long, the store is not asked again for a budget that was used up: a slice may yet be given back. */
const emptyMs = 200;

export function createAccessBudgets({ store, collections, world }: AccessBudgetsOptions): AccessBudgets {
  const { accessSessionBudgets } = collections;
  const slices = new Map<string, HeldSlice>();
  /** Runs only while slices are held: an idle process sleeps. */
  let timer: NodeJS.Timeout | undefined;

  function sliceOf(id: string): HeldSlice {
    const known = slices.get(id);
    if (known !== undefined) return known;
    const made = { left: 0, drawing: undefined, usedAtMs: performance.now(), emptyUntilMs: 0 };
    slices.set(id, made);
    timer ??= setInterval(sweep, idleMs / 2).unref();
    return made;
  }

  function tryTake(id: string): boolean {
    const slice = slices.get(id);
    if (slice === undefined || slice.left === 0) return false;
    slice.left -= 1;
    slice.usedAtMs = performance.now();
    return true;
  }

  async function draw(id: string): Promise<number> {
    const { result } = await transact(store, async () => {
      const before = await accessSessionBudgets.get(id);
      const left = Number(before?.value.left ?? 0n);
      const count = Math.min(maxSlice, Math.ceil(left / sliceDivisor));
      if (before === undefined || count === 0) return { changes: [], result: 0 };
      const after = { ...before.value, left: BigInt(left - count) };
      return { changes: accessSessionBudgets.change({ before, after }), result: count };
    });
    return result;
  }

  async function fill(id: string, slice: HeldSlice): Promise<void> {
    try {
      const count = await draw(id);
      slice.left += count;
      slice.usedAtMs = performance.now();
      if (count === 0) slice.emptyUntilMs = slice.usedAtMs + emptyMs;
    } finally {
      slice.drawing = undefined;
    }
  }

  async function giveBack(id: string, count: number): Promise<void> {
    await transact(store, async () => {
      const before = await accessSessionBudgets.get(id);
      // The session has ended.
      if (before === undefined) return { changes: [], result: undefined };
      const after = { ...before.value, left: before.value.left + BigInt(count) };
      return { changes: accessSessionBudgets.change({ before, after }), result: undefined };
    });
  }

  /** What is given back must not be used any more, whether the commit succeeds or not. */
  async function release(id: string, slice: HeldSlice): Promise<void> {
    const { left } = slice;
    slice.left = 0;
    slices.delete(id);
    if (left === 0) return;
    try {
      await giveBack(id, left);
    } catch (err) {
      world.log.warn("could not give back unused requests of an access session; they are lost", { err });
    }
  }

  function sweep(): void {
    const before = performance.now() - idleMs;
    for (const [id, slice] of slices) {
      if (slice.drawing === undefined && slice.usedAtMs < before) void release(id, slice);
    }
    if (slices.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    tryTake,
    async take(id) {
      for (;;) {
        if (tryTake(id)) return true;
        const slice = sliceOf(id);
        if (slice.drawing === undefined && slice.emptyUntilMs > performance.now()) return false;
        slice.drawing ??= fill(id, slice);
        await slice.drawing;
      }
    },
    draw,
    giveBack,
    async close() {
      clearInterval(timer);
      await Promise.all([...slices].map(([id, slice]) => release(id, slice)));
    },
  };
}
