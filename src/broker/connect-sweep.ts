import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../base/world.ts";
import { type Change, StaleWrite, type Store, StoreUnavailable } from "../store/contract.ts";
import type { Collections } from "./collections.ts";

interface SweepOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly lifetimes: { readonly sessionMs: number; readonly pendingMs: number };
  readonly world: World;
}

const everyMs = 60_000;
/** In one commit; what is left is for the next. */
const perCommit = 500;
const commitsPerSweep = 20;

/** Deletes connect sessions and authorizations that nobody came back to. They are good for nothing before that. */
export function createConnectSweep(options: SweepOptions): { sweep(): Promise<void>; close(): void } {
  const { store, collections, lifetimes, world } = options;
  const { connectSessions, pendingAuthorizations } = collections;

  async function outdated(): Promise<Change[]> {
    const oldest = { under: [], limit: perCommit };
    const [sessions, pending] = [
      await connectSessions.pageBy("age", oldest),
      await pendingAuthorizations.pageBy("age", oldest),
    ];
    const isOlder = (lifetimeMs: number) => (one: (typeof sessions | typeof pending)[number]) =>
      one.value.createdAt === undefined || timestampMs(one.value.createdAt) + lifetimeMs <= world.now();
    return [
      ...sessions
        .filter(isOlder(lifetimes.sessionMs))
        .flatMap((before) => connectSessions.change({ before, after: undefined })),
      ...pending
        .filter(isOlder(lifetimes.pendingMs))
        .flatMap((before) => pendingAuthorizations.change({ before, after: undefined })),
    ];
  }

  async function sweep(): Promise<void> {
    for (let i = 0; i < commitsPerSweep; i += 1) {
      const changes = await outdated();
      if (changes.length === 0) return;
      await store.commit(changes);
    }
  }

  const timer = setInterval(() => {
    sweep().catch((err: unknown) => {
      // Somebody else deleted one of them, or there is no store to delete from: a minute later is as good.
      if (err instanceof StaleWrite || err instanceof StoreUnavailable) return;
      world.log.error("what is over could not be swept away", { err });
    });
  }, everyMs);
  timer.unref();
  return { sweep, close: () => clearInterval(timer) };
}
