import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { byFieldName } from "../../../../src/base/http/field-name.ts";

it("keeps names, and not the heads that they were cut from", () => {
  setFlagsFromString("--expose-gc");
  const gc: () => void = runInNewContext("gc");
  const lower = byFieldName((text, name) => ({ text, name }));
  const headBytes = 100_000;
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 300; i += 1) {
    const name = `X-Some-Long-Name-${i}`;
    const head = Buffer.from(`${name}: ${"x".repeat(headBytes)}`).toString("latin1");
    expect(lower(head.slice(0, name.length))).toEqual({ text: name.toLowerCase(), name });
  }
  gc();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * headBytes);
  expect(lower("X-Some-Long-Name-7")).toBe(lower("X-Some-Long-Name-7"));
});
