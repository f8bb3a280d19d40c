import { expect, it } from "vitest";
import { StreamTable } from "../../../../src/relay/http2/wire/stream-table.ts";

interface Stream {
  readonly id: number;
  following: Stream | undefined;
}

const stream = (id: number): Stream => ({ id, following: undefined });

it("finds the streams that are open, also of IDs that share a row", () => {
  const table = new StreamTable<Stream>();
  const ids = Array.from({ length: 1_000 }, (_, i) => 2 * i + 1);
  for (const id of ids) table.add(stream(id));
  for (const id of ids) if (id % 3 === 0) table.delete(id);
  const left = ids.filter((id) => id % 3 !== 0);
  expect(table.size).toBe(left.length);
  expect(table.now().map(({ id }) => id)).toEqual(left);
  for (const id of ids) expect(table.get(id)?.id).toBe(id % 3 === 0 ? undefined : id);
  table.delete(3);
  table.delete(2_001);
  expect(table.size).toBe(left.length);
});

it("lets a stream that leaves point to no other", () => {
  const table = new StreamTable<Stream>();
  const all = [1, 129, 257].map(stream);
  for (const one of all) table.add(one);
  table.delete(129);
  table.delete(257);
  expect(all.map(({ following }) => following)).toEqual([undefined, undefined, undefined]);
  expect(table.now()).toEqual([all[0]]);
});
