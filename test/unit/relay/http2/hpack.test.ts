import { randomInt } from "node:crypto";
import { once } from "node:events";
import http2 from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { errorCodes } from "../../../../src/relay/http2/wire/error-codes.ts";
import { FrameInput } from "../../../../src/relay/http2/wire/frame-input.ts";
import { HpackDecoder } from "../../../../src/relay/http2/wire/hpack-decoder.ts";
import { bytesFor, HpackEncoder } from "../../../../src/relay/http2/wire/hpack-encoder.ts";
import { staticTable } from "../../../../src/relay/http2/wire/static-table.ts";

const limits = { maxFields: 100, maxListBytes: 8_192 };
const hex = (text: string) => Buffer.from(text.replaceAll(" ", ""), "hex");
const decodeWith = (decoder: HpackDecoder, text: string) => {
  const bytes = hex(text);
  return decoder.decode(bytes, 0, bytes.length);
};
const fieldsOf = (text: string) => decodeWith(new HpackDecoder(limits), text).fields;

/** RFC 7541, appendix C. `table`: a size update that comes first, for the examples with a table of 256 bytes. */
const requests = [
  [":method", "GET", ":scheme", "http", ":path", "/", ":authority", "www.example.com"],
  [":method", "GET", ":scheme", "http", ":path", "/", ":authority", "www.example.com", "cache-control", "no-cache"],
  [
    ":method",
    "GET",
    ":scheme",
    "https",
    ":path",
    "/index.html",
    ":authority",
    "www.example.com",
    "custom-key",
    "custom-value",
  ],
];
const answer = (status: string, date: string, ...more: string[]) => [
  ...[":status", status, "cache-control", "private", "date", `Mon, 21 Oct 2013 20:13:${date} GMT`],
  ...["location", "https://www.example.com", ...more],
];
const cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const answers = [
  answer("302", "21"),
  answer("307", "21"),
  answer("200", "22", "content-encoding", "gzip", "set-cookie", cookie),
];

it.each([
  [
    "C.2.1 literal with indexing",
    ["400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572"],
    [["custom-key", "custom-header"]],
  ],
  ["C.2.2 literal without indexing", ["040c 2f73 616d 706c 652f 7061 7468"], [[":path", "/sample/path"]]],
  ["C.2.3 literal never indexed", ["1008 7061 7373 776f 7264 0673 6563 7265 74"], [["password", "secret"]]],
  ["C.2.4 indexed", ["82"], [[":method", "GET"]]],
  [
    "C.3 requests without Huffman code",
    [
      "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
      "8286 84be 5808 6e6f 2d63 6163 6865",
      "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ],
    requests,
  ],
  [
    "C.4 requests with Huffman code",
    [
      "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
      "8286 84be 5886 a8eb 1064 9cbf",
      "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ],
    requests,
  ],
  [
    "C.5 responses without Huffman code, with evictions",
    [
      "3fe101 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
      "4803 3330 37c1 c0bf",
      "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ],
    answers,
  ],
  [
    "C.6 responses with Huffman code, with evictions",
    [
      "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
      "4883 640e ffc1 c0bf",
      "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ],
    answers,
  ],
] as const)("decodes the example of RFC 7541, appendix %s", (_name, blocks, expected) => {
  const decoder = new HpackDecoder(limits);
  expect(blocks.map((block) => decodeWith(decoder, block).fields)).toEqual(expected);
});

it.each([
  ["2.3.3: index 0", "80"],
  ["2.3.3: an index beyond both tables", "be"],
  ["2.3.3: a name beyond both tables", "7e 01 61"],
  ["5.1: an integer without an end", "ff ff"],
  ["5.1: an integer that is too large", "ff ff ff ff ff ff ff 7f"],
  ["5.2: a string that is longer than its block", "00 05 61"],
  ["5.2: a name without a value", "00 01 61"],
  ["5.2: Huffman code with eight bits of padding", "00 01 61 82 1fff"],
  ["5.2: Huffman code padded with zeros", "00 01 61 81 18"],
  ["5.2: EOS within Huffman code", "00 01 61 84 ffffffff"],
  ["4.2: a size update behind a field", "82 20"],
  ["4.2: a table larger than allowed", "3f e2 1f"],
])("refuses %s", (_section, block) => {
  expect(() => fieldsOf(block)).toThrow(expect.objectContaining({ code: errorCodes.compressionError }));
});

it.each([
  ["an upper-case name", "00 01 41 01 61"],
  ["a name with a space", "00 02 61 20 01 61"],
  ["an empty name", "00 00 01 61"],
  ["a value with a line feed", "00 01 61 03 61 0a 62"],
  ["a value with NUL", "00 01 61 01 00"],
  ["a value with DEL", "00 01 61 01 7f"],
])("marks a block with %s, also when it comes out of the table", (_what, literal) => {
  const decoder = new HpackDecoder(limits);
  expect(decodeWith(decoder, literal).isMalformed).toBe(true);
  expect(decodeWith(decoder, "82").isMalformed).toBe(false);
  expect(decodeWith(decoder, `40${literal.slice(2)}`).isMalformed).toBe(true);
  expect(decodeWith(decoder, "be").isMalformed).toBe(true);
});

it("keeps its table in step when a block has more than allowed", () => {
  const decoder = new HpackDecoder({ maxFields: 2, maxListBytes: 120 });
  const large = decodeWith(decoder, `82 82 82 40 01 61 01 62`);
  expect(large).toEqual({ fields: [":method", "GET", ":method", "GET"], isMalformed: false, isTooLarge: true });
  expect(decodeWith(decoder, "be").fields).toEqual(["a", "b"]);
});

const texts = ["", "a", "GET", "/", "text/plain", "x".repeat(300), "\t", "é", "~", "application/grpc"];
const names = [...staticTable.map(([name]) => name), "x-own", "grpc-encoding", "te", "a"];
const some = <T>(list: readonly T[]): T => list[randomInt(list.length)] as T;

it("encodes what its decoder reads, while the table changes its size", () => {
  const encoder = new HpackEncoder();
  const decoder = new HpackDecoder({ maxFields: 1_000, maxListBytes: 1e6 });
  for (let round = 0; round < 2_000; round += 1) {
    if (randomInt(10) === 0) encoder.resize(some([0, 40, 64, 200, 4_096, 65_536]));
    if (randomInt(20) === 0) encoder.resize(some([0, 100, 4_096]));
    const fields = Array.from({ length: randomInt(12) }, () => [some(names), some(texts).trim()]).flat();
    const out = Buffer.alloc(bytesFor(fields));
    encoder.begin(out, 0);
    for (let i = 0; i < fields.length; i += 2) encoder.field(fields[i] ?? "", fields[i + 1] ?? "", randomInt(4) === 0);
    expect(decoder.decode(out, 0, encoder.end()).fields).toEqual(fields);
  }
});

it("tells of the smallest size since the last block, and of the last (RFC 7541, 4.2)", () => {
  const encoder = new HpackEncoder();
  encoder.resize(0);
  encoder.resize(9_000);
  const out = Buffer.alloc(64);
  encoder.begin(out, 0);
  encoder.field(":method", "GET", false);
  expect(out.subarray(0, encoder.end())).toEqual(hex("20 3fe11f 82"));
  encoder.begin(out, 0);
  encoder.field(":method", "GET", false);
  expect(out.subarray(0, encoder.end())).toEqual(hex("82"));
});

it("never puts a sensitive value, or one of a name that tells users apart, into the table", () => {
  const encoder = new HpackEncoder();
  const encoded = (name: string, value: string, isSensitive: boolean) => {
    const out = Buffer.alloc(bytesFor([name, value]));
    encoder.begin(out, 0);
    encoder.field(name, value, isSensitive);
    return out.subarray(0, encoder.end());
  };
  for (const name of ["authorization", "x-api-key"]) {
    const first = encoded(name, "secret", true);
    expect(first.readUInt8(0) & 0xf0).toBe(0x10);
    expect(encoded(name, "secret", true)).toEqual(first);
  }
  const cookies = encoded("cookie", "id=1", false);
  expect(cookies.readUInt8(0) & 0xf0).toBe(0);
  expect(encoded("cookie", "id=1", false)).toEqual(cookies);
  expect(encoded("user-agent", "x", false).readUInt8(0) & 0xc0).toBe(0x40);
  expect(encoded("user-agent", "x", false)).toEqual(Buffer.from([0x80 | 62]));
});

it("reads what nghttp2 has encoded, with every byte that a value may have", async () => {
  const decoder = new HpackDecoder({ maxFields: 1_000, maxListBytes: 1e6 });
  const heads: (readonly string[])[] = [];
  const server = createServer((socket) => {
    let skipped = 0;
    const input = new FrameInput({
      isClosed: false,
      onDataBegin() {},
      onDataContent() {},
      onDataEnd() {},
      onFrame(type, _flags, _streamId, payload) {
        if (type === 1) heads.push(decoder.decode(payload, 0, payload.length).fields);
      },
    });
    socket.write(Buffer.from("000000040000000000", "hex"));
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      const preface = Math.min(24 - skipped, bytes.length);
      skipped += preface;
      input.read(bytes.subarray(preface));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => {
    session.destroy();
    server.close();
  });
  const bytes = Array.from({ length: 256 }, (_, code) => code).filter(
    (code) => (code > 31 && code !== 127) || code === 9,
  );
  const all = String.fromCharCode(...bytes).trim();
  const sent: string[][] = [];
  for (let i = 0; i < 200; i += 1) {
    const value = Array.from({ length: randomInt(60) }, () => all.charAt(randomInt(all.length)))
      .join("")
      .trim();
    const fields = ["x-all", i === 0 ? all : value, `x-${i % 7}`, String(i % 5)];
    sent.push(fields);
    session
      .request({ ":path": "/", ...Object.fromEntries([fields.slice(0, 2), fields.slice(2)]) })
      .on("error", () => {});
  }
  await expect.poll(() => heads.length).toBe(200);
  expect(heads.map((fields) => fields.slice(-4))).toEqual(sent);
});
