import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { letSmallHeapGrow } from "../../../../src/base/node/old-generation.ts";
import { startOnHeap } from "./fake-heap.ts";

it("lets a small heap grow, and leaves a larger one to V8", () => {
  const { growths, collect, end } = startOnHeap(letSmallHeapGrow, { sizeMib: 30 });
  expect(growths).toEqual([300]);
  for (const size of [40, 90, 200]) collect(size);
  expect(growths).toEqual([300, 0]);
  collect(40);
  end();
  expect(growths).toEqual([300, 0, 300, 0]);
});

it("leaves the growth to an operator who names it", () => {
  const { growths, collect, end } = startOnHeap(letSmallHeapGrow, { given: "--heap-growing-percent=50" });
  collect(90);
  end();
  expect(growths).toEqual([]);
});

it("sets a flag that this V8 knows", () => {
  const module = fileURLToPath(new URL("../../../../src/base/node/old-generation.ts", import.meta.url));
  const program = `(await import(${JSON.stringify(module)})).letSmallHeapGrow()();`;
  const { stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  // V8 writes a line about a flag that it does not know.
  expect([stderr, status]).toEqual(["", 0]);
});
