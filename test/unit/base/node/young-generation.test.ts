import v8 from "node:v8";
import { expect, it, onTestFinished } from "vitest";
import { limitYoungGeneration } from "../../../../src/base/node/young-generation.ts";
import { startOnHeap } from "./fake-heap.ts";

const mib = 1024 * 1024;

it("makes it grow to 64 MiB and no further, and again once V8 has given memory back", () => {
  const { growths, collect, end } = startOnHeap(limitYoungGeneration);
  expect(growths).toEqual([32]);
  for (const size of [2, 16, 64, 64]) collect(size);
  expect(growths).toEqual([32, 4, 1]);
  for (const size of [2, 2, 40]) collect(size);
  expect(growths).toEqual([32, 4, 1, 32, 1]);
  collect(20);
  end();
  expect(growths).toEqual([32, 4, 1, 32, 1, 3, 2]);
});

it("leaves the size to an operator who names it", () => {
  for (const given of ["--max-semi-space-size=64", "--title=x --min_semi_space_size=8"]) {
    const { growths, collect, end } = startOnHeap(limitYoungGeneration, { given });
    collect(64);
    end();
    expect(growths).toEqual([]);
  }
});

it("gives this Node's young generation 64 MiB", async () => {
  const young = () => v8.getHeapSpaceStatistics().find((one) => one.space_name === "new_space")?.space_size ?? 0;
  onTestFinished(limitYoungGeneration());
  const kept: object[][] = [];
  // Survivors make V8 grow it: without the limit, to 128 MiB.
  for (let round = 0; round < 200; round += 1) {
    kept.push(Array.from({ length: 30_000 }, (_, i) => ({ i, round })));
    if (kept.length > 8) kept.shift();
    await new Promise(setImmediate);
  }
  expect(young()).toBeGreaterThan(32 * mib);
  expect(young()).toBeLessThanOrEqual(64 * mib);
});
