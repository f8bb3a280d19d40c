import { expect, it } from "vitest";
import { LentBuffers } from "../../../../src/relay/client/lent-buffers.ts";
import { createBulkBuffers } from "../../../../src/relay/http1/bulk.ts";

const pairs = 32;
const nothing = () => {};

it("hands out two buffers to each of a bounded number of answers", () => {
  const buffers = createBulkBuffers();
  const taken = Array.from({ length: pairs }, () => buffers.take(nothing));
  expect(taken).not.toContain(undefined);
  expect(buffers.take(nothing)).toBeUndefined();
  taken[0]?.end();
  expect(buffers.take(nothing)).toBeDefined();
});

it("fills no buffer in use, and reports its return", () => {
  const told: string[] = [];
  const bulk = createBulkBuffers().take(() => told.push("free"));
  const first = bulk?.next() as Buffer;
  const back = bulk?.lend(first);
  const second = bulk?.next() as Buffer;
  expect(second.buffer).not.toBe(first.buffer);
  bulk?.lend(second);
  expect([bulk?.isExhausted, bulk?.next()]).toEqual([true, undefined]);
  back?.();
  expect(told).toEqual(["free"]);
  expect(bulk?.next()).toBe(first);
});

it("never lends a buffer that is still being written to a caller that has left", () => {
  const buffers = createBulkBuffers();
  const leaving = buffers.take(nothing);
  const buffer = leaving?.next() as Buffer;
  const back = leaving?.lend(buffer);
  leaving?.end();
  const next = () => {
    const bulk = buffers.take(nothing);
    const all = [bulk?.next() as Buffer];
    bulk?.lend(all[0] as Buffer);
    all.push(bulk?.next() as Buffer);
    return all;
  };
  expect(next()).not.toContain(buffer);
  // However often it is given back, it goes to one other reader.
  back?.();
  back?.();
  expect([...next(), ...next()].filter((one) => one === buffer)).toHaveLength(1);
});

it("is back at the full number once all that was lent has come back", () => {
  const buffers = createBulkBuffers();
  for (let round = 0; round < 3; round += 1) {
    const taken = Array.from({ length: pairs }, () => buffers.take(nothing));
    const backs = taken.map((bulk) => bulk?.lend(bulk.next() as Buffer));
    for (const bulk of taken) bulk?.end();
    expect(buffers.take(nothing), `round ${round}`).toBeUndefined();
    for (const back of backs) back?.();
  }
});

it("comes back once: when it is written, or when its caller leaves", () => {
  const released: string[] = [];
  const lent = new LentBuffers();
  const written = ["a", "b", "c"].map((name) => lent.add(() => released.push(name)));
  written[1]?.();
  expect(released).toEqual(["b"]);
  lent.releaseAll();
  expect(released).toEqual(["b", "a", "c"]);
  // Node calls back with an error for what a destroyed socket did not write.
  for (const done of written) done();
  lent.releaseAll();
  expect(released).toEqual(["b", "a", "c"]);
});
