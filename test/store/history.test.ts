import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { type Commit, HistoryLost, type Watcher } from "../../src/store/contract.ts";
import { createHistory } from "../../src/store/history.ts";

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

it("keeps what fits, and says which history is gone", () => {
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

it("lets go of what it forgets", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const history = open(100_000);
  const refs = Array.from({ length: 900 }, (_, i) => {
    const added = commit(i + 1, 10_000);
    history.add(added);
    return new WeakRef(added);
  });
  // A weak reference holds what it names until the turn in which it was made has ended.
  await setImmediate();
  collect();
  const held = refs.filter((ref) => ref.deref() !== undefined);
  expect(held.length).toBeLessThan(20);
  expect(held.at(-1)?.deref()?.revision).toBe(900);
});

it("tells those who watch that it has lost its thread, once, and takes new ones from there", () => {
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
