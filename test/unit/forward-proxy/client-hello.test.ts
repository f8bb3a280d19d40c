import { once } from "node:events";
import { duplexPair } from "node:stream";
import tls from "node:tls";
import { expect, it, vi } from "vitest";
import { type ClientHello, ClientHelloReader } from "../../../src/forward-proxy/client-hello.ts";

/** The first bytes of Node's own client. */
async function helloOf(options: tls.ConnectionOptions): Promise<Buffer> {
  const [here, there] = duplexPair();
  const client = tls.connect({ socket: here, ...options });
  client.on("error", () => {});
  const [bytes] = (await once(there, "data")) as [Buffer];
  client.destroy();
  return bytes;
}

function readIn(pieces: Iterable<Buffer>): { hello: ClientHello; received: Buffer } {
  const reader = new ClientHelloReader();
  let hello: ClientHello = { kind: "incomplete" };
  for (const piece of pieces) {
    hello = reader.add(piece);
    if (hello.kind !== "incomplete") break;
  }
  return { hello, received: reader.received };
}

function* piecesOf(bytes: Buffer, size: number): Iterable<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const record = (content: Buffer, type = 22): Buffer =>
  Buffer.concat([Buffer.from([type, 3, 1, content.length >> 8, content.length & 255]), content]);

/** The same message over records of this size. */
const inRecords = (bytes: Buffer, size: number): Buffer =>
  Buffer.concat([...piecesOf(bytes.subarray(5), size)].map((content) => record(content)));

it("reads the server name, in any pieces and over any records", async () => {
  const bytes = await helloOf({ servername: "Api.Example.test", minVersion: "TLSv1.3" });
  const expected = { kind: "hello", serverName: "api.example.test" };
  for (const size of [1, 2, 5, 100, bytes.length]) {
    expect(readIn(piecesOf(bytes, size))).toEqual({ hello: expected, received: bytes });
    const split = inRecords(bytes, size);
    expect(readIn(piecesOf(split, 7)).hello).toEqual(expected);
    expect(readIn([split]).received).toEqual(split);
  }
  expect(readIn([await helloOf({})]).hello).toEqual({ kind: "hello", serverName: undefined });
});

it("leaves to the server what follows in the same piece, such as early data", async () => {
  const bytes = await helloOf({ servername: "api.example.test" });
  const early = Buffer.concat([bytes, record(Buffer.from([1]), 20), record(Buffer.alloc(100), 23)]);
  expect(readIn([early])).toEqual({ hello: { kind: "hello", serverName: "api.example.test" }, received: early });
});

it("refuses what is not a ClientHello, or has no end", async () => {
  const bytes = await helloOf({ servername: "api.example.test" });
  const altered = (at: number, value: number) => {
    const copy = Buffer.from(bytes);
    copy[at] = value;
    return copy;
  };
  const cases: readonly Buffer[] = [
    Buffer.from("GET / HTTP/1.1\r\n\r\n"),
    altered(0, 23),
    altered(1, 2),
    // Another message, and a length beyond the limit.
    altered(5, 2),
    altered(6, 1),
    record(Buffer.alloc(0)),
    Buffer.concat([bytes.subarray(0, 5), bytes.subarray(5, 9), Buffer.alloc(bytes.length - 9, 0xff)]),
  ];
  for (const one of cases)
    expect([one.toString("latin1", 0, 12), readIn([one]).hello.kind]).toEqual([
      one.toString("latin1", 0, 12),
      "malformed",
    ]);
  const endless = inRecords(Buffer.concat([Buffer.alloc(5), Buffer.from([1, 0, 0x70, 0]), Buffer.alloc(40_000)]), 1);
  const { hello, received } = readIn(piecesOf(endless, 6));
  expect(hello.kind).toBe("malformed");
  expect(received.length).toBeLessThan(33 * 1024);
});

it("copies each byte a few times, however small the pieces are", () => {
  const bytes = inRecords(Buffer.concat([Buffer.alloc(5), Buffer.from([1, 0, 0x7f, 0]), Buffer.alloc(5_000)]), 1);
  let copied = 0;
  const set = vi.spyOn(Uint8Array.prototype, "set").mockImplementation(function (this: Uint8Array, from, at) {
    copied += from.length;
    Buffer.from(from).copy(this, at);
  });
  const concat = vi.spyOn(Buffer, "concat");
  expect(readIn(piecesOf(bytes, 1)).hello.kind).toBe("incomplete");
  expect(concat).not.toHaveBeenCalled();
  set.mockRestore();
  concat.mockRestore();
  expect(copied).toBeGreaterThan(bytes.length);
  expect(copied).toBeLessThan(2 * bytes.length);
});
