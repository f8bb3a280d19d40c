import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { whenAborted } from "../../src/base/when-aborted.ts";

it("tells all who wait, once, and nobody who has gone", () => {
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

it("listens once to each signal, however many wait", () => {
  const { signal } = new AbortController();
  for (let i = 0; i < 100; i += 1) whenAborted(signal, () => {})();
  whenAborted(signal, () => {});
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
});
