import { expect, it } from "vitest";
import { createEngine, type Machine, type Outside } from "../../src/scripts/engine.ts";

const limits = { memoryBytes: 64 * 2 ** 20 };
const outside: Outside = { called: () => undefined, mustStop: () => false };

async function openPictured() {
  const engine = await createEngine();
  const machine = await engine.blank(limits, outside);
  machine.evaluate(
    "globalThis.go = (_, size) => { globalThis.held = new Uint8Array(Number(size)).fill(0xa7); return ''; }",
    "a.js",
  );
  machine.takeEntry("go");
  const picture = machine.picture();
  return { restore: () => engine.restore(picture, limits, outside) };
}

/** What lies in a machine's memory, but for where it lies. */
const contents = (machine: Machine): Buffer => Buffer.concat(machine.picture().pieces.map(({ bytes }) => bytes));

it("X02 gives a run nothing of what was in the memory that it gets", async () => {
  const { restore } = await openPictured();
  const first = await restore();
  const fresh = contents(first);
  // What fits into the memory that it began with, so that it is used again.
  first.enter("go", String(2 ** 20), "");
  const dirty = first.heapBytes();
  expect(contents(first).includes(Buffer.alloc(1_000, 0xa7))).toBe(true);
  first.release();
  const second = await restore();
  expect(second.heapBytes()).toBe(dirty);
  expect(contents(second).equals(fresh)).toBe(true);
});

it("keeps no memory that has grown, and lets nobody into a machine that is gone", async () => {
  const { restore } = await openPictured();
  const first = await restore();
  const size = first.heapBytes();
  first.enter("go", String(32 * 2 ** 20), "");
  expect(first.heapBytes()).toBeGreaterThan(size);
  first.release();
  expect(() => first.enter("go", "1", "")).toThrow("gone");
  expect(() => first.settle()).toThrow("gone");
  const second = await restore();
  expect(second.heapBytes()).toBe(size);
  // Given back twice, it would be two machines' at once.
  second.release();
  second.release();
  const [third, fourth] = [await restore(), await restore()];
  third.enter("go", String(2 ** 20), "");
  expect(contents(fourth).includes(Buffer.alloc(1_000, 0xa7))).toBe(false);
});
