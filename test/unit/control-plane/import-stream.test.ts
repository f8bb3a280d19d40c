import { expect, it } from "vitest";
import { overlapping } from "../../../src/control-plane/services/imports/import-stream.ts";

async function* each<T>(...values: readonly T[]) {
  yield* values;
}

/** Yields its values, and then waits for ever. */
async function* endless<T>(...values: readonly T[]): AsyncGenerator<T> {
  yield* values;
  await new Promise<never>(() => {});
}

it("starts a batch while the one before is imported, two at most, and yields results in order", async () => {
  const finish = new Map<string, () => void>();
  const started: (readonly [string, string | undefined])[] = [];
  interface Begun {
    readonly name: string;
    readonly result: Promise<string>;
  }
  const results = overlapping(each("a", "b", "c"), (name, before: Begun | undefined): Begun => {
    started.push([name, before?.name]);
    return { name, result: new Promise((resolve) => finish.set(name, () => resolve(`${name} done`))) };
  });
  const first = results.next();
  await expect
    .poll(() => started)
    .toEqual([
      ["a", undefined],
      ["b", "a"],
    ]);
  finish.get("b")?.();
  finish.get("a")?.();
  expect((await first).value).toBe("a done");
  expect((await results.next()).value).toBe("b done");
  const third = results.next();
  await expect.poll(() => finish.has("c")).toBe(true);
  finish.get("c")?.();
  expect((await third).value).toBe("c done");
  expect((await results.next()).done).toBe(true);
});

it("yields a result before the next batch has come", async () => {
  const results = overlapping(endless(1, 2), (batch) => ({ result: Promise.resolve(batch) }));
  expect([(await results.next()).value, (await results.next()).value]).toEqual([1, 2]);
});

it("fails with the first batch that fails, whatever became of the next, and waits for no other", async () => {
  const results = overlapping(endless(1, 2), (batch) => ({
    result: Promise.reject<string>(new Error(`batch ${batch}`)),
  }));
  await expect(results.next()).rejects.toThrow("batch 1");
  expect((await results.next()).done).toBe(true);
});
