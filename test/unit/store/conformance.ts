import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type Backend,
  type Change,
  type Commit,
  HistoryLost,
  StaleWrite,
  StoreUnavailable,
  StoreUsed,
  type Watcher,
} from "../../../src/store/contract.ts";
import { seeded } from "../../support/runner/seeded.ts";

/** A backend under test: opened over and over on the same fixture. */
export interface Ground {
  open(): Promise<Backend>;
  /** Leaves nothing behind. */
  clear(): Promise<void>;
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (value: Uint8Array | undefined): string | undefined => value && new TextDecoder().decode(value);
const put = (key: string, value: string, expect?: number): Change =>
  expect === undefined ? { key, value: bytes(value) } : { key, value: bytes(value), expect };
const remove = (key: string): Change => ({ key, value: undefined });
const watcher = (onCommit: (commit: Commit) => void): Watcher => ({
  onCommit,
  onLost: () => {
    throw new Error("the history was lost");
  },
});
const everything = { from: "\x01", to: "\u{10ffff}", limit: 1_000_000 };

/** The contract of every backend. */
export function conforms(name: string, prepare: () => Promise<Ground>): void {
  describe(`the ${name} store`, () => {
    let fixture: Ground;
    let store: Backend;
    beforeEach(async () => {
      fixture = await prepare();
      store = await fixture.open();
    });
    afterEach(async () => {
      await store.close();
      await fixture.clear();
    });

    const contents = async () => (await store.list(everything)).map(({ key, value }) => `${key}=${text(value)}`);

    it("returns committed values with the revision of their commit", async () => {
      const revision = await store.commit([put("a", "1"), put("b", "2")]);
      expect(await store.get("a")).toMatchObject({ key: "a", revision });
      expect(text((await store.get("b"))?.value)).toBe("2");
      expect(store.status()).toMatchObject({ revision, writable: true });
    });

    it("finds no key that was never written, or was deleted", async () => {
      await store.commit([put("a", "1")]);
      await store.commit([remove("a"), remove("never")]);
      expect(await store.get("a")).toBeUndefined();
      expect(await store.getMany(["a", "never"])).toEqual([undefined, undefined]);
    });

    it("gives every commit the next revision, and every key that of its last change", async () => {
      const first = await store.commit([put("a", "1"), put("b", "1")]);
      const second = await store.commit([put("b", "2")]);
      expect(second).toBe(first + 1);
      expect((await store.getMany(["a", "b"])).map((entry) => entry?.revision)).toEqual([first, second]);
    });

    it("keeps an empty value apart from no value", async () => {
      await store.commit([{ key: "empty", value: new Uint8Array() }]);
      expect((await store.get("empty"))?.value).toHaveLength(0);
    });

    it("keeps bytes as they are", async () => {
      const value = Uint8Array.from({ length: 256 }, (_, i) => i);
      await store.commit([{ key: "bytes", value }]);
      expect([...((await store.get("bytes"))?.value ?? [])]).toEqual([...value]);
    });

    it("accepts exactly one of two racing writers", async () => {
      const outcomes = await Promise.allSettled([
        store.commit([put("k", "first", 0)]),
        store.commit([put("k", "second", 0)]),
      ]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    });

    it("refuses a write with another expected revision, and returns the current one", async () => {
      const revision = await store.commit([put("k", "1")]);
      const late = store.commit([put("k", "2", revision - 1)]);
      await expect(late).rejects.toBeInstanceOf(StaleWrite);
      await expect(late).rejects.toMatchObject({ key: "k", current: revision });
      expect(text((await store.get("k"))?.value)).toBe("1");
    });

    it("refuses a deletion that expects another revision", async () => {
      const revision = await store.commit([put("k", "1")]);
      await expect(store.commit([{ key: "k", value: undefined, expect: revision + 1 }])).rejects.toBeInstanceOf(
        StaleWrite,
      );
      await store.commit([{ key: "k", value: undefined, expect: revision }]);
      await expect(store.commit([put("k", "again", revision)])).rejects.toMatchObject({ current: 0 });
    });

    it("returns the keys of a range in pages, without deleted ones", async () => {
      await store.commit([put("a/1", "1"), put("a/2", "2"), put("a/3", "3"), put("b/1", "4")]);
      await store.commit([remove("a/2")]);
      const found: string[] = [];
      for (let rest: string | undefined = "a/"; rest !== undefined; ) {
        const page = await store.keys({ from: rest, to: "a0", limit: 1 });
        expect(page.keys.length).toBeLessThanOrEqual(1);
        found.push(...page.keys);
        rest = page.rest;
      }
      expect(found).toEqual(["a/1", "a/3"]);
      expect(await store.keys({ from: "c/", to: "c0", limit: 10 })).toEqual({ keys: [], rest: undefined });
    });

    it("discards the keys of a range while its fence holds, and nothing else", async () => {
      const tags = Array.from({ length: 25 }, (_, i) => put(`tag/${String(i).padStart(2, "0")}`, ""));
      const revision = await store.commit([...tags, put("tagged", "1"), put("report", "1")]);
      const range = { from: "tag/", to: "tag0", limit: 10 };
      expect(await store.discard(range, { key: "report", expect: revision - 1 })).toBe(false);
      expect(await store.discard(range, { key: "none", expect: revision })).toBe(false);
      expect(await contents()).toHaveLength(27);
      const fence = { key: "report", expect: revision };
      expect(await store.discard(range, fence)).toBe(true);
      expect(await contents()).toHaveLength(17);
      while (await store.discard(range, fence));
      expect(await contents()).toEqual(["report=1", "tagged=1"]);
      expect(store.status().revision).toBe(revision);
      // A discarded key is a new one.
      await store.commit([put("tag/01", "again", 0)]);
      expect(text((await store.get("tag/01"))?.value)).toBe("again");
    });

    it("commits all of its changes or none", async () => {
      await store.commit([put("there", "1")]);
      await expect(store.commit([put("new", "1"), put("there", "2", 0)])).rejects.toBeInstanceOf(StaleWrite);
      expect(await contents()).toEqual(["there=1"]);
    });

    it("refuses a commit whose condition on an unwritten key fails", async () => {
      const revision = await store.commit([put("parent", "1")]);
      await store.commit([put("child", "1")], [{ key: "parent", expect: revision }]);
      await store.commit([remove("parent")]);
      const late = store.commit([put("orphan", "1")], [{ key: "parent", expect: revision }]);
      await expect(late).rejects.toMatchObject({ name: "StaleWrite", key: "parent", current: 0 });
      expect(await contents()).toEqual(["child=1"]);
    });

    it("refuses a commit that requires an empty range which has an entry", async () => {
      const empty = { from: "child/", to: "child0" };
      await store.commit([put("parent", "1")], [{ empty }]);
      await store.commit([put("child/a", "1")]);
      await expect(store.commit([remove("parent")], [{ empty }])).rejects.toBeInstanceOf(StaleWrite);
      await store.commit([remove("child/a")]);
      await store.commit([remove("parent")], [{ empty }]);
      expect(await contents()).toEqual([]);
    });

    it("never leaves a child without its parent, whichever of the two commits comes first", async () => {
      for (let round = 0; round < 20; round += 1) {
        const parent = await store.commit([put("parent", "1")]);
        const add = () => store.commit([put("child/a", "1")], [{ key: "parent", expect: parent }]);
        const drop = () => store.commit([remove("parent")], [{ empty: { from: "child/", to: "child0" } }]);
        const outcomes = await Promise.allSettled(round % 2 === 0 ? [add(), drop()] : [drop(), add()]);
        expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
        const left = await contents();
        expect(left.includes("child/a=1") && !left.includes("parent=1")).toBe(false);
        await store.commit([remove("parent"), remove("child/a")]);
      }
    });

    it("loses none of many concurrent increments, each by reading, deciding and writing", async () => {
      const increment = async (): Promise<void> => {
        const entry = await store.get("counter");
        const next = String(Number(text(entry?.value) ?? "0") + 1);
        try {
          await store.commit([put("counter", next, entry?.revision ?? 0)]);
        } catch (error) {
          if (!(error instanceof StaleWrite)) throw error;
          await increment();
        }
      };
      await Promise.all(Array.from({ length: 50 }, increment));
      expect(text((await store.get("counter"))?.value)).toBe("50");
    });

    it("lists keys in the order of their UTF-8 bytes", async () => {
      // In UTF-16 order the last two would change places.
      const keys = ["a", "a\0", "a\0b", "ab", "z", "é", "\u{ffee}", "\u{1f511}"];
      await store.commit(keys.toReversed().map((key) => put(key, "")));
      expect((await store.list(everything)).map(({ key }) => key)).toEqual(keys);
    });

    it("lists a range with its start and without its end, in both directions, up to the limit", async () => {
      await store.commit(["a", "b", "c", "d"].map((key) => put(key, key)));
      const keysOf = async (range: Parameters<Backend["list"]>[0]) => (await store.list(range)).map(({ key }) => key);
      expect(await keysOf({ from: "b", to: "d", limit: 10 })).toEqual(["b", "c"]);
      expect(await keysOf({ from: "a", to: "e", limit: 2 })).toEqual(["a", "b"]);
      expect(await keysOf({ from: "a", to: "e", limit: 2, reverse: true })).toEqual(["d", "c"]);
      expect(await keysOf({ from: "x", to: "z", limit: 10 })).toEqual([]);
    });

    it("has the same content after a reopen, and continues its revisions", async () => {
      const revision = await store.commit([put("a", "1"), put("b", "2")]);
      await store.close();
      store = await fixture.open();
      expect(await contents()).toEqual(["a=1", "b=2"]);
      expect((await store.get("a"))?.revision).toBe(revision);
      expect(await store.commit([put("c", "3")])).toBe(revision + 1);
    });

    it("sends a watcher every commit after its revision, in order and with values", async () => {
      const first = await store.commit([put("a", "1")]);
      await store.commit([put("a", "2"), put("b", "1")]);
      const seen: string[] = [];
      const watch = await store.watch(
        first,
        watcher(({ revision, changes }) => {
          for (const { key, value } of changes) seen.push(`${revision - first}:${key}=${text(value) ?? "gone"}`);
        }),
      );
      await store.commit([remove("a")]);
      watch.close();
      await store.commit([put("unseen", "1")]);
      expect(seen).toEqual(["1:a=2", "1:b=1", "2:a=gone"]);
    });

    it("sends a watcher of some spaces only the commits that change them", async () => {
      const seen: string[] = [];
      const watch = (from: number, name: string) =>
        store.watch(from, {
          ...watcher(
            ({ changes }) => void seen.push(`${name}: ${changes.map(({ key }) => key.replace("\0", "/")).join()}`),
          ),
          spaces: ["a", "c.d"],
        });
      await watch(store.status().revision, "live");
      for (const keys of [["ab\x001", "c\x001"], ["b\x001", "a\x001"], ["a"], ["c.d\x001", "a\x002"], ["a.b\0a"]]) {
        await store.commit(keys.map((key) => put(key, "1")));
      }
      await store.commit([remove("a\x001")]);
      const wanted = ["b/1,a/1", "a", "c.d/1,a/2", "a/1"];
      expect(seen).toEqual(wanted.map((keys) => `live: ${keys}`));
      await watch(0, "resumed");
      expect(seen.slice(wanted.length)).toEqual(wanted.map((keys) => `resumed: ${keys}`));
    });

    it("has notified its watchers when a commit resolves", async () => {
      const seen: number[] = [];
      await store.watch(
        store.status().revision,
        watcher(({ revision }) => void seen.push(revision)),
      );
      const revisions = await Promise.all(Array.from({ length: 20 }, (_, i) => store.commit([put(`k${i}`, "")])));
      expect(seen).toEqual(revisions.toSorted((a, b) => a - b));
    });

    it("reports that the requested history is gone", async () => {
      await store.commit([put("a", "1")]);
      await store.commit([put("a", "2")]);
      await store.close();
      store = await fixture.open();
      const { revision } = store.status();
      const ignore = watcher(() => {});
      await expect(store.watch(revision + 1, ignore)).rejects.toBeInstanceOf(HistoryLost);
      await expect(store.watch(0, ignore)).rejects.toBeInstanceOf(HistoryLost);
      await expect(store.watch(revision, ignore)).resolves.toBeDefined();
    });

    it("continues when a watcher fails, and notifies the others", async () => {
      const seen: number[] = [];
      const { revision } = store.status();
      await store.watch(
        revision,
        watcher(() => {
          throw new Error("a defect of the watcher's");
        }),
      );
      await store.watch(
        revision,
        watcher((commit) => void seen.push(commit.revision)),
      );
      await expect(store.commit([put("a", "1")])).resolves.toBe(revision + 1);
      expect(seen).toEqual([revision + 1]);
    });

    it("keeps a snapshot unchanged during other writes", async () => {
      await store.commit([put("a", "1"), put("b", "1")]);
      const revision = await store.commit([put("gone", "1")]);
      const snapshot = await store.snapshot();
      await store.commit([put("a", "2"), remove("gone"), put("c", "1")]);
      const seen: string[] = [];
      for await (const page of snapshot.pages()) seen.push(...page.map(({ key, value }) => `${key}=${text(value)}`));
      await snapshot.close();
      expect(snapshot.revision).toBe(revision);
      expect(seen).toEqual(["a=1", "b=1", "gone=1"]);
      expect(await contents()).toEqual(["a=2", "b=1", "c=1"]);
    });

    it("is filled from a snapshot with its revisions, and continues from there", async () => {
      await store.fill({ revision: 40, pages: pagesOf(["a", 12], ["b", 40]) });
      expect((await store.getMany(["a", "b"])).map((entry) => entry?.revision)).toEqual([12, 40]);
      expect(store.status()).toMatchObject({ revision: 40, writable: true });
      expect(await store.commit([put("a", "2", 12)])).toBe(41);
      await store.close();
      store = await fixture.open();
      expect((await store.getMany(["a", "b"])).map((entry) => entry?.revision)).toEqual([41, 40]);
    });

    it("is not filled if it has, or had, content", async () => {
      await store.commit([put("a", "1")]);
      await store.commit([remove("a")]);
      await expect(store.fill({ revision: 40, pages: pagesOf(["b", 40]) })).rejects.toBeInstanceOf(StoreUsed);
      expect(await contents()).toEqual([]);
      expect(store.status().writable).toBe(true);
    });

    it("finds no damage in intact content, after reading all of it", async () => {
      await store.commit(Array.from({ length: 3_000 }, (_, i) => put(`k${i}`, "v")));
      let read = 0;
      for await (const { entries, damaged } of store.scrub()) {
        read += entries.length;
        expect(damaged).toEqual([]);
      }
      expect(read).toBe(3_000);
    });

    it("has a clock that advances", async () => {
      const before = await store.clock();
      await sleep(20);
      const passed = (await store.clock()) - before;
      expect(passed).toBeGreaterThanOrEqual(15);
      expect(passed).toBeLessThan(5_000);
    });

    it("knows its kind and its size", async () => {
      const { storeId, format } = store.status();
      expect(storeId).toMatch(/^[0-9a-f-]{36}$/);
      expect(format).toBeGreaterThan(0);
      await store.commit([put("a", "x".repeat(100_000))]);
      expect((await store.space()).usedBytes).toBeGreaterThan(0);
      await store.close();
      store = await fixture.open();
      expect(store.status().storeId).toBe(storeId);
    });

    it("refuses writes and reopening after it was retired, and names its successor", async () => {
      await store.commit([put("a", "1")]);
      await store.retire("elsewhere");
      await expect(store.commit([put("b", "1")])).rejects.toThrow(/elsewhere/);
      expect(store.status()).toMatchObject({ writable: false, reason: expect.stringContaining("elsewhere") });
      await store.close();
      await expect(fixture.open()).rejects.toThrow(/elsewhere/);
    });

    it("checks a group of concurrent commits against each other", async () => {
      const outcomes = await Promise.allSettled([
        store.commit([put("a", "1", 0), put("n", "1")]),
        store.commit([put("b", "1")], [{ key: "a", expect: 0 }]),
        store.commit([put("c", "1")], [{ empty: { from: "n", to: "o" } }]),
        store.commit([put("n", "2")]),
        store.commit([put("n", "3")]),
        store.commit([put("twice", "1"), put("twice", "2")]),
      ]);
      expect(outcomes.map(({ status }) => status === "fulfilled")).toEqual([true, false, false, true, true, true]);
      expect(await contents()).toEqual(["a=1", "n=3", "twice=2"]);
    });

    it("takes a commit of ten thousand changes", async () => {
      await store.commit(Array.from({ length: 10_000 }, (_, i) => put(`k${String(i).padStart(5, "0")}`, "v")));
      expect(await store.list({ from: "k", to: "l", limit: 100_000 })).toHaveLength(10_000);
    });

    it("has finished its requests when it is closed, and does nothing afterwards", async () => {
      const asked = Array.from({ length: 100 }, (_, i) => store.commit([put(`k${i}`, "")]));
      await store.close();
      await expect(Promise.all(asked)).resolves.toHaveLength(100);
      await expect(store.commit([put("late", "")])).rejects.toBeInstanceOf(StoreUnavailable);
      await expect(store.get("late")).rejects.toBeInstanceOf(StoreUnavailable);
      store = await fixture.open();
      expect(await contents()).toHaveLength(100);
    });

    it("answers like a plain map, to any requests in any order", async () => {
      const model = new Map<string, { value: string; revision: number }>();
      const random = seeded(20_260_101);
      const pick = (n: number) => Math.floor(random() * n);
      for (let step = 0; step < 400; step += 1) {
        const changes = Array.from({ length: 1 + pick(3) }, (): Change => {
          const key = `k${pick(12)}`;
          const value = pick(4) === 0 ? undefined : bytes(`v${step}`);
          // Mostly the current revision; sometimes an old one.
          const expect = pick(3) === 0 ? undefined : (model.get(key)?.revision ?? 0) + (pick(8) === 0 ? 1 : 0);
          return expect === undefined ? { key, value } : { key, value, expect };
        });
        const isStale = changes.some(
          ({ key, expect }) => expect !== undefined && expect !== (model.get(key)?.revision ?? 0),
        );
        if (isStale) {
          await expect(store.commit(changes)).rejects.toBeInstanceOf(StaleWrite);
        } else {
          const revision = await store.commit(changes);
          for (const { key, value } of changes) {
            if (value === undefined) model.delete(key);
            else model.set(key, { value: text(value) ?? "", revision });
          }
        }
        if (step % 100 === 99) {
          await store.close();
          store = await fixture.open();
        }
      }
      const wanted = [...model]
        .map(([key, { value, revision }]) => ({ key, value, revision }))
        .sort((a, b) => (a.key < b.key ? -1 : 1));
      const found = (await store.list(everything)).map(({ key, value, revision }) => ({
        key,
        value: text(value),
        revision,
      }));
      expect(found).toEqual(wanted);
    });
  });
}

async function* pagesOf(...entries: readonly (readonly [string, number])[]) {
  for (const [key, revision] of entries) yield [{ key, revision, value: bytes("1") }];
}
