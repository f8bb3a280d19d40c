import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { HistoryLost } from "../../src/store/contract.ts";
import { createHistory } from "../../src/store/history.ts";

const open = (maxBytes: number) =>
  createHistory({
    revision: 0,
    maxBytes,
    onWatcherError: (error) => {
      throw error;
    },
  });
const commit = (revision: number, bytes: number) => ({
  revision,
  changes: [{ key: `k${revision}`, value: new Uint8Array(bytes) }],
});

it("keeps what fits, and says which history is gone", () => {
  const history = open(10_000);
  for (let revision = 1; revision <= 50; revision += 1) history.add(commit(revision, 1_000));
  expect(() => history.watch(1, () => {})).toThrow(HistoryLost);
  const seen: number[] = [];
  history.watch(45, ({ revision }) => void seen.push(revision));
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
