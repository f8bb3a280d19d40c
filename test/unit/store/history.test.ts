import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { type Commit, HistoryLost, type Watcher } from "../../../src/store/contract.ts";
import { createHistory } from "../../../src/store/history.ts";

const open = (maxBytes: number) =>
  createHistory({
    revision: 0,
    maxBytes,
    onWatcherError: (error) => {
      throw error;
    },
  });
const watcher = (onCommit: (commit: Commit) => void): Watcher => ({
  onCommit,
  onLost: () => {
    throw new Error("nothing was lost");
  },
});
const commit = (revision: number, bytes: number) => ({
  revision,
  changes: [{ key: `k${revision}`, value: new Uint8Array(bytes) }],
});

it("keeps what fits, and reports dropped history", () => {
  const history = open(10_000);
  for (let revision = 1; revision <= 50; revision += 1) history.add(commit(revision, 1_000));
  expect(() =>
    history.watch(
      1,
      watcher(() => {}),
    ),
  ).toThrow(HistoryLost);
  const seen: number[] = [];
  history.watch(
    45,
    watcher(({ revision }) => seen.push(revision)),
  );
  expect(seen).toEqual([46, 47, 48, 49, 50]);
});

it("drops a commit above the limit, and continues after it", () => {
  const history = open(4_000);
  for (const [revision, bytes] of [10, 5_000, 10, 3_900, 10].entries()) history.add(commit(revision + 1, bytes));
  const seen: number[] = [];
  const watch = (from: number) =>
    history.watch(
      from,
      watcher(({ revision }) => seen.push(revision)),
    );
  // The fourth has pushed out the third, and the fifth the fourth.
  for (const from of [0, 1, 2, 3]) expect(() => watch(from)).toThrow(HistoryLost);
  watch(4);
  expect(seen).toEqual([5]);
});

it("keeps the bytes of commits, and none of the commits", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const history = open(1_000_000);
  const refs = Array.from({ length: 900 }, (_, i) => {
    const added = commit(i + 1, 10_000);
    history.add(added);
    return new WeakRef(added);
  });
  // A weak reference keeps its target alive until the tick in which it was created has ended.
  await setImmediate();
  collect();
  expect(refs.filter((ref) => ref.deref() !== undefined)).toHaveLength(0);
  let count = 0;
  history.watch(
    850,
    watcher(() => {
      count += 1;
    }),
  );
  expect(count).toBe(50);
});

it("replays commits exactly, and never changes what it returned", () => {
  const history = open(4_000);
  const committed = [
    { revision: 1, changes: [] },
    {
      revision: 2,
      changes: [
        { key: "gone", value: undefined },
        { key: "empty", value: new Uint8Array() },
        { key: "a\0Käse\0𝄞", value: Uint8Array.of(0, 255) },
      ],
    },
    // Larger than what is dropped at once.
    { revision: 3, changes: [{ key: "large", value: new Uint8Array(1_500).fill(7) }] },
    { revision: 2 ** 40, changes: [{ key: "late", value: Uint8Array.of(1) }] },
  ];
  for (const one of committed) history.add(one);
  const told: Commit[] = [];
  history.watch(
    0,
    watcher((one) => told.push(one)),
  );
  for (let i = 1; i <= 50; i += 1) history.add(commit(2 ** 40 + i, 150));
  expect(told.slice(0, 4)).toEqual(committed);
});

it("reports a gap once to its watchers, and accepts new ones from there", () => {
  const history = open(10_000);
  history.add(commit(1, 10));
  const told: string[] = [];
  history.watch(1, { onCommit: ({ revision }) => told.push(`${revision}`), onLost: () => told.push("lost") });
  history.lose(7);
  history.add(commit(8, 10));
  expect(told).toEqual(["lost"]);
  expect(() =>
    history.watch(
      6,
      watcher(() => {}),
    ),
  ).toThrow(HistoryLost);
  const seen: number[] = [];
  history.watch(
    7,
    watcher(({ revision }) => seen.push(revision)),
  );
  expect(seen).toEqual([8]);
});
