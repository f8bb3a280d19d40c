import { expect, it, onTestFinished, vi } from "vitest";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { type CommitOutcome, type CommitRequest, createCommitQueue } from "../../../src/store/commit-queue.ts";
import { type Change, StaleWrite, StoreUnavailable } from "../../../src/store/contract.ts";

const put = (key: string, bytes = 1): Change => ({ key, value: new Uint8Array(bytes) });
const metrics = createMetrics();

/** A write that ends when the test releases it. */
function stalling() {
  const groups: (readonly CommitRequest[])[] = [];
  const ends: ((outcomes: readonly CommitOutcome[] | Error) => void)[] = [];
  const queue = createCommitQueue({
    metrics,
    write: (group) => {
      groups.push(group);
      return new Promise((resolve, reject) => {
        ends.push((outcomes) => (outcomes instanceof Error ? reject(outcomes) : resolve(outcomes)));
      });
    },
  });
  const keysOf = (i: number) => groups[i]?.map(({ changes }) => changes.map(({ key }) => key).join());
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return { queue, groups, ends, keysOf, turn };
}

it("S12 refuses commits at once above the limits of number or bytes, and accepts them below", async () => {
  const { queue, ends, turn } = stalling();
  const first = queue.commit([put("first")], []);
  await turn();
  const waiting = Array.from({ length: 20_000 }, (_, i) => queue.commit([put(`k${i}`)], []));
  const all = Promise.allSettled(waiting);
  await expect(queue.commit([put("one too many")], [])).rejects.toBeInstanceOf(StoreUnavailable);
  ends[0]?.([1]);
  await first;
  await turn();
  const taken = queue.commit([put("welcome")], []);
  ends[1]?.(Array.from({ length: 16_384 }, (_, i) => i + 2));
  await turn();
  ends[2]?.(Array.from({ length: 5_000 }, (_, i) => i + 20_000));
  await Promise.all([taken, all]);

  const { queue: other } = stalling();
  const large = Array.from({ length: 64 }, (_, i) => other.commit([put(`k${i}`, 1024 * 1024 - 4)], []));
  await expect(other.commit([put("one too many", 1024)], [])).rejects.toThrow(/too many/);
  expect(large).toHaveLength(64);
});

it("joins independent commits to one write, in order", async () => {
  const { queue, ends, keysOf, turn } = stalling();
  const empty = (from: string, to: string) => ({ empty: { from, to } });
  const asked = [
    queue.commit([put("a")], []),
    queue.commit([put("b")], [{ key: "x", expect: 1 }]),
    queue.commit([put("c")], [empty("m", "n")]),
    queue.commit([put("d")], [{ key: "a", expect: 1 }]),
    queue.commit([put("e")], [empty("d", "f")]),
    queue.commit([put("e")], []),
    queue.commit([put("\u{1f511}")], []),
    queue.commit([put("f")], [empty("m", "n")]),
  ];
  for (let i = 0; i < 5; i += 1) {
    await turn();
    ends[i]?.((keysOf(i) ?? []).map(() => i + 1));
  }
  await Promise.all(asked);
  expect([0, 1, 2, 3, 4].map(keysOf)).toEqual([["a", "b", "c"], ["d"], ["e"], ["e", "\u{1f511}"], ["f"]]);
});

it("lets a commit that may wait join the next one, while commits are frequent, and not for long", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const { queue, ends, groups, keysOf, turn } = stalling();
  const commit = async (key: string, mayWait: boolean) => {
    void queue.commit([put(key)], [], { mayWait });
    await turn();
  };
  const write = async () => {
    const i = ends.length - 1;
    ends[i]?.((keysOf(i) ?? []).map(() => i + 1));
    await turn();
    return keysOf(i);
  };
  // No other commit is expected.
  await commit("alone", true);
  expect(await write()).toEqual(["alone"]);
  await commit("first", false);
  await commit("during a write", true);
  expect(await write()).toEqual(["first"]);
  expect(groups).toHaveLength(2);
  await commit("second", false);
  expect(await write()).toEqual(["during a write", "second"]);
  // Nothing comes in time.
  await commit("late", true);
  vi.advanceTimersByTime(3);
  expect(groups).toHaveLength(3);
  vi.advanceTimersByTime(1);
  await turn();
  expect(await write()).toEqual(["late"]);
  await commit("third", false);
  expect(await write()).toEqual(["third"]);
  for (let i = 1; i < 16; i += 1) await commit(`of many ${i}`, true);
  expect(groups).toHaveLength(5);
  await commit("of many 16", true);
  expect(await write()).toHaveLength(16);
  await commit("fourth", false);
  expect(await write()).toEqual(["fourth"]);
  await commit("last", true);
  const drained = queue.drained();
  await turn();
  expect(await write()).toEqual(["last"]);
  await drained;
});

it("writes a commit apart whose empty range is ordered differently by bytes than by JavaScript", async () => {
  const { queue, ends, keysOf, turn } = stalling();
  // The key lies below the bound by its bytes, above it by its UTF-16 units.
  const range = { empty: { from: "\uffee", to: "\u{10ffff}" } };
  const all = [queue.commit([put("a")], []), queue.commit([put("\uffef")], []), queue.commit([put("b")], [range])];
  for (let i = 0; i < 2; i += 1) {
    await turn();
    ends[i]?.((keysOf(i) ?? []).map(() => i + 1));
  }
  await Promise.all(all);
  expect([0, 1].map(keysOf)).toEqual([["a", "\uffef"], ["b"]]);
});

it("gives each of a group its own outcome, and all of a failed one the failure", async () => {
  const { queue, ends, turn } = stalling();
  const [kept, stale] = [queue.commit([put("a")], []), queue.commit([put("b")], [])];
  const settled = Promise.allSettled([kept, stale]);
  await turn();
  ends[0]?.([7, new StaleWrite({ key: "b", current: 3 })]);
  expect(await settled).toMatchObject([{ value: 7 }, { reason: { key: "b", current: 3 } }]);

  const failing = Promise.allSettled([queue.commit([put("a")], []), queue.commit([put("b")], [])]);
  await turn();
  ends[1]?.(new Error("no space"));
  for (const one of await failing) {
    expect(one).toMatchObject({ status: "rejected", reason: { name: "StoreUnavailable" } });
  }
});

it("refuses queued and new commits while it is stopped, and resumes", async () => {
  const { queue, ends, turn } = stalling();
  const writing = queue.commit([put("writing")], []);
  await turn();
  const waiting = queue.commit([put("waiting")], []);
  queue.stop(new StoreUnavailable("the disk is full"));
  await expect(waiting).rejects.toThrow("the disk is full");
  await expect(queue.commit([put("new")], [])).rejects.toThrow("the disk is full");
  ends[0]?.([1]);
  await expect(writing).resolves.toBe(1);
  queue.resume();
  const after = queue.commit([put("after")], []);
  await turn();
  ends[1]?.([2]);
  await expect(after).resolves.toBe(2);
  expect(queue.length).toBe(0);
});
