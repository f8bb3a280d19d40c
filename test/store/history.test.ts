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
  const { setFlagsFromString } = await import("node:v8");
  const { runInNewContext } = await import("node:vm");
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const history = open(1_000_000);
  collect();
  const before = process.memoryUsage().arrayBuffers;
  for (let revision = 1; revision <= 900; revision += 1) history.add(commit(revision, 100_000));
  collect();
  // 90 MB went through it.
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(10_000_000);
  expect(() => history.watch(899, () => {})).not.toThrow();
});
