import { expect, it } from "vitest";
import { createEngine, type Machine, type MachineHost } from "../../../src/scripts/machine/engine.ts";

const limits = { memoryBytes: 64 * 2 ** 20 };
const outside: MachineHost = { called: () => undefined, mustStop: () => false };

async function openPictured() {
  const engine = await createEngine();
  const machine = await engine.blank(limits, outside);
  machine.evaluate(
    "globalThis.go = (_, size) => { globalThis.held = new Uint8Array(Number(size)).fill(0xa7); return ''; }",
    "a.js",
  );
  machine.takeEntry("go");
  const picture = machine.picture();
  return {
    restore: () => engine.restore(picture, limits, outside),
    restoreToPicture: () => engine.restore(picture, { ...limits, isPictured: true }, outside),
  };
}

/** The memory of a machine, in pages. */
const pagesOf = (machine: Machine): number => machine.picture().pages;
const contents = (machine: Machine): Buffer => Buffer.concat(machine.picture().pieces.map(({ bytes }) => bytes));

it("X02 gives a run nothing of earlier content in its memory", async () => {
  const { restore } = await openPictured();
  const first = await restore();
  const fresh = contents(first);
  // Fits into the initial memory, so that the machine is reused.
  first.enter("go", String(2 ** 20), "");
  const dirty = pagesOf(first);
  expect(contents(first).includes(Buffer.alloc(1_000, 0xa7))).toBe(true);
  first.release();
  const second = await restore();
  expect(pagesOf(second)).toBe(dirty);
  expect(contents(second).equals(fresh)).toBe(true);
});

it("X02 reuses at most one grown memory, wiped, and never for a snapshot", async () => {
  const { restore, restoreToPicture } = await openPictured();
  const [first, other] = [await restore(), await restore()];
  const fresh = contents(first);
  const size = pagesOf(first);
  for (const one of [first, other]) one.enter("go", String(32 * 2 ** 20), "");
  const grown = pagesOf(first);
  expect(grown).toBeGreaterThan(size);
  first.release();
  other.release();
  expect(pagesOf(await restoreToPicture())).toBe(size);
  const second = await restore();
  expect(pagesOf(second)).toBe(grown);
  expect(contents(second).equals(fresh)).toBe(true);
  expect(pagesOf(await restore())).toBe(size);
  // It needed no more than its usual memory: the next run does not have to clear 64 MiB.
  second.release();
  expect(pagesOf(await restore())).toBe(size);
});

it("reports exhausted memory of the machine that needed it, and not of the next one", async () => {
  const { restore } = await openPictured();
  const first = await restore();
  expect(() => first.enter("go", String(100 * 2 ** 20), "")).toThrow("out of memory");
  expect(first.lacksMemory()).toBe(true);
  first.enter("go", String(40 * 2 ** 20), "");
  expect(first.lacksMemory()).toBe(false);
  first.release();
  const second = await restore();
  expect(second.lacksMemory()).toBe(false);
  second.enter("go", String(40 * 2 ** 20), "");
  expect(second.lacksMemory()).toBe(false);
});

it("refuses calls to a released machine", async () => {
  const { restore } = await openPictured();
  const first = await restore();
  first.release();
  expect(() => first.enter("go", "1", "")).toThrow("released");
  expect(() => first.settle()).toThrow("released");
  // Given back twice, it would be used by two at once.
  first.release();
  const [third, fourth] = [await restore(), await restore()];
  third.enter("go", String(2 ** 20), "");
  expect(contents(fourth).includes(Buffer.alloc(1_000, 0xa7))).toBe(false);
});
