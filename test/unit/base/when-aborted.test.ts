import { getEventListeners } from "node:events";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { whenAborted } from "../../../src/base/when-aborted.ts";

it("calls all waiting listeners once, and no removed one", () => {
  const controller = new AbortController();
  const told: string[] = [];
  whenAborted(controller.signal, () => told.push("a"));
  const leave = whenAborted(controller.signal, () => told.push("b"));
  whenAborted(controller.signal, () => {
    leaveLast();
    told.push("c");
  });
  const leaveLast = whenAborted(controller.signal, () => told.push("d"));
  leave();
  controller.abort();
  controller.abort();
  expect(told).toEqual(["a", "c"]);
});

it("adds one listener to each signal, as long as there are waiters", () => {
  const { signal } = new AbortController();
  const leaves = Array.from({ length: 100 }, () => whenAborted(signal, () => {}));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  for (const leave of leaves) leave();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

it("removing a listener twice does not affect others", () => {
  const controller = new AbortController();
  const told: string[] = [];
  const leave = whenAborted(controller.signal, () => told.push("a"));
  leave();
  whenAborted(controller.signal, () => told.push("b"));
  leave();
  whenAborted(controller.signal, () => told.push("c"));
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
  controller.abort();
  expect(told).toEqual(["b", "c"]);
});

it("keeps no combined signal without waiters", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const whole = new AbortController();
  const refs = Array.from({ length: 100 }, () => {
    const run = AbortSignal.any([whole.signal, new AbortController().signal]);
    whenAborted(run, () => {})();
    return new WeakRef(run);
  });
  await setImmediate();
  collect();
  expect(refs.filter((ref) => ref.deref() !== undefined)).toHaveLength(0);
});

it("calls the others when one throws, which is reported", async () => {
  const controller = new AbortController();
  const told: string[] = [];
  const reported: unknown[] = [];
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.once("uncaughtException", (error) => reported.push(error));
  try {
    whenAborted(controller.signal, () => {
      throw new Error("a");
    });
    whenAborted(controller.signal, () => told.push("b"));
    controller.abort();
    await setImmediate();
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const listener of before) process.on("uncaughtException", listener);
  }
  expect(told).toEqual(["b"]);
  expect(reported).toEqual([new Error("a")]);
});
