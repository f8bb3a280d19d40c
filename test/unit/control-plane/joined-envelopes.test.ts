import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { BytesValueSchema } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { joinedEnvelopes, separatedEnvelopes } from "../../../src/control-plane/server/bulk/joined-envelopes.ts";
import { below, seeded } from "../../support/runner/seeded.ts";

const maxBytes = 50_000;

function envelope(message: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

async function* each<T>(values: Iterable<T>) {
  yield* values;
}

async function collected(body: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const found: Uint8Array[] = [];
  for await (const one of body) found.push(one);
  return found;
}

/** What the library finds in an envelope: its flags, and the joined envelopes. */
function contentOf(bytes: Uint8Array): { readonly flags: number; readonly value: Uint8Array } {
  const view = Buffer.from(bytes);
  expect(view.readUInt32BE(1)).toBe(bytes.length - 5);
  return { flags: view[0] ?? 0, value: fromBinary(BytesValueSchema, bytes.subarray(5)).value };
}

it("joins messages however they arrive, in their order, those with flags alone", async () => {
  const random = seeded(3);
  for (let round = 0; round < 30; round += 1) {
    const sent = Array.from({ length: below(random, 700) }, () => {
      const size = random() < 0.02 ? below(random, maxBytes + 1) : below(random, 200);
      return envelope(new Uint8Array(size).fill(size), random() < 0.01 ? 0x80 : 0);
    });
    const whole = Buffer.concat(sent);
    const chunks: Uint8Array[] = [];
    for (let at = 0; at < whole.length; ) {
      const end = at + 1 + below(random, random() < 0.3 ? 8 : 20_000);
      chunks.push(whole.subarray(at, end));
      at = end;
    }
    const found = (await collected(joinedEnvelopes(each(chunks), maxBytes))).map(contentOf);
    expect(Buffer.compare(Buffer.concat(found.map(({ value }) => value)), whole)).toBe(0);
    for (const { flags, value } of found) expect(flags).toBe(value[0]);
    expect(found.length).toBeLessThanOrEqual(sent.length);
  }
});

it("passes on what came before a message that is too large, or not whole", async () => {
  const good = envelope(Uint8Array.of(1, 2));
  const found: Uint8Array[] = [];
  const read = async (...chunks: readonly Uint8Array[]) => {
    for await (const one of joinedEnvelopes(each(chunks), maxBytes)) found.push(contentOf(one).value);
  };
  const large = envelope(new Uint8Array(maxBytes + 1));
  const message = `message size ${maxBytes + 1} is larger than configured readMaxBytes ${maxBytes}`;
  await expect(read(Buffer.concat([good, large]))).rejects.toThrow(message);
  await expect(read(Buffer.concat([good, good.subarray(0, 6)]))).rejects.toThrow("incomplete envelope");
  await expect(read(Buffer.concat([good, good.subarray(0, 3)]))).rejects.toThrow("incomplete envelope");
  expect(found.map((one) => Buffer.compare(one, good))).toEqual([0, 0, 0]);
});

it("separates the messages of a response, and passes on its end", async () => {
  const joined = [Buffer.alloc(0), envelope(Uint8Array.of(9)), envelope(new Uint8Array(300))];
  const sent = joined.map((value) =>
    envelope(toBinary(BytesValueSchema, { $typeName: "google.protobuf.BytesValue", value })),
  );
  const end = envelope(Uint8Array.of(1, 2, 3), 2);
  const found = Buffer.concat(await collected(separatedEnvelopes(each([...sent.slice(1), end]))));
  expect(Buffer.compare(found, Buffer.concat([...joined, end]))).toBe(0);
});

it("tells the producer of a response when its client does not read it", async () => {
  const told: unknown[] = [];
  async function* body() {
    try {
      yield envelope(Uint8Array.of(10, 1, 7));
    } catch (error) {
      told.push(error);
      throw error;
    }
  }
  const chunks = separatedEnvelopes(body())[Symbol.asyncIterator]();
  const { value } = await chunks.next();
  expect([...(value ?? [])]).toEqual([7]);
  const gone = new Error("gone");
  await expect(chunks.throw?.(gone)).rejects.toBe(gone);
  expect(told).toEqual([gone]);
});
