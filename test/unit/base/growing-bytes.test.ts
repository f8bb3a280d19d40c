import { expect, it } from "vitest";
import { GrowingBytes } from "../../../src/base/growing-bytes.ts";

it("copies earlier bytes only a few times, however small the pieces", () => {
  const growing = new GrowingBytes();
  const buffers = new Set<number | ArrayBufferLike>();
  for (let i = 0; i < 65_536; i += 1) {
    growing.add(Uint8Array.of(i % 251));
    buffers.add(growing.bytes.buffer);
  }
  expect(growing.bytes).toEqual(Buffer.from(Array.from({ length: 65_536 }, (_, i) => i % 251)));
  expect(buffers.size).toBeLessThan(10);
});

it("takes a piece that is larger than all before", () => {
  const growing = new GrowingBytes();
  growing.add(Buffer.from("a"));
  growing.add(Buffer.alloc(100_000, "b"));
  growing.add(Buffer.from("c"));
  expect(growing.bytes.toString()).toBe(`a${"b".repeat(100_000)}c`);
});
