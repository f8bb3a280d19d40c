import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { LiveSet } from "../../../src/base/live-set.ts";

const named = (name: string) => ({ name, place: -1 });

it("has the members that came and did not go, however they are mixed", () => {
  const set = new LiveSet<ReturnType<typeof named>>();
  const expected = new Set<ReturnType<typeof named>>();
  const all = Array.from({ length: 20 }, (_, i) => named(String(i)));
  let seed = 7;
  for (let step = 0; step < 5_000; step += 1) {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    const one = all[seed % all.length] ?? named("");
    if ((seed >> 8) % 2 === 0) {
      set.add(one);
      expected.add(one);
    } else {
      expect(set.delete(one)).toBe(expected.delete(one));
    }
    expect(set.size).toBe(expected.size);
    expect(set.has(one)).toBe(expected.has(one));
  }
  expect(new Set(set.now())).toEqual(expected);
});

it("lets members leave while they are visited", () => {
  const set = new LiveSet<ReturnType<typeof named>>();
  for (const name of ["a", "b", "c"]) set.add(named(name));
  const visited: string[] = [];
  for (const one of set.now()) {
    visited.push(one.name);
    for (const other of set.now()) set.delete(other);
  }
  expect(visited).toEqual(["a", "b", "c"]);
  expect(set.size).toBe(0);
});

it("does not take a member of another set for its own", () => {
  const [here, there] = [new LiveSet<ReturnType<typeof named>>(), new LiveSet<ReturnType<typeof named>>()];
  const [mine, other] = [named("mine"), named("other")];
  here.add(mine);
  there.add(other);
  expect(here.has(other)).toBe(false);
  expect(here.delete(other)).toBe(false);
  expect(here.now()).toEqual([mine]);
});

/** A full collection puts what is alive into the old generation: of a Set, the table that its next tables hang on. */
it("keeps nothing alive that has left, after it has become old itself", async () => {
  setFlagsFromString("--expose-gc");
  const gc: (options?: { readonly type: "minor" }) => void = runInNewContext("gc");
  const set = new LiveSet<{ place: number; bytes: ArrayBuffer }>();
  const inUse: { place: number; bytes: ArrayBuffer }[] = [];
  const eachBytes = 1_000;
  function turn(): void {
    const one = { place: -1, bytes: new ArrayBuffer(eachBytes) };
    set.add(one);
    inUse.push(one);
    const left = inUse.length > 32 ? inUse.shift() : undefined;
    if (left !== undefined) set.delete(left);
  }
  for (let i = 0; i < 100; i += 1) turn();
  gc();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 5_000; i += 1) turn();
  // Young collections alone, as under load.
  for (let i = 0; i < 3; i += 1) {
    gc({ type: "minor" });
    await setImmediate();
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(500 * eachBytes);
});
