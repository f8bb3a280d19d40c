import { randomBytes, randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { errorCodes } from "../../../../src/relay/http2/wire/error-codes.ts";
import { clientPreface } from "../../../../src/relay/http2/wire/frames.ts";
import { ServedConnection } from "../../../../src/relay/http2/wire/served-connection.ts";
import type { WireStream } from "../../../../src/relay/http2/wire/wire-stream.ts";
import { flags, frame, frameTypes, literal, uint32 } from "../../../cases/control-plane/frames.ts";

/** The server side of a connection, without a socket: what it does with the bytes of a client. */

const window = 100_000;
const settings = (...values: readonly (readonly [id: number, value: number])[]) =>
  frame("settings", {
    payload: Buffer.concat(values.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), uint32(value)]))),
  });
const getHead = Buffer.concat([Buffer.from([0x82, 0x84, 0x86]), literal(":authority", "a")]);
const { endHeaders, endStream } = flags;
const head = (stream: number, set: number = endHeaders | endStream, payload = getHead) =>
  frame("headers", { stream, flags: set, payload });
const data = (stream: number, content: string | Buffer, set = 0) =>
  frame("data", { stream, flags: set, payload: Buffer.from(content) });
const raw = (type: number, payload: Buffer, { set = 0, stream = 0 } = {}) => {
  const bytes = frame("data", { flags: set, stream, payload });
  bytes.writeUInt8(type, 3);
  return bytes;
};

function opened() {
  const written: Buffer[] = [];
  const seen: string[] = [];
  const streams = new Map<number, WireStream>();
  let controlFrames = 0;
  const connection: ServedConnection = new ServedConnection({
    sink: { write: (bytes: Buffer) => written.push(Buffer.from(bytes)) > 0, unsentBytes: 0 },
    streamWindow: window,
    connectionWindow: 2 * window,
    maxFields: 100,
    maxListBytes: 8_192,
    maxStreams: 10,
    owner: {
      onDirty() {},
      onSettings: () => seen.push("settings"),
      onGoaway: (last, code) => seen.push(`goaway ${last} ${code}`),
      onControlFrame: () => {
        controlFrames += 1;
      },
      onPong: () => seen.push("pong"),
      onReset: () => seen.push("reset"),
      onError: ({ code }) => seen.push(`error ${code}`),
      onRequest(id, { fields, isTooLarge, isMalformed }, isEnd) {
        const marks = `${isTooLarge ? " too large" : ""}${isMalformed ? " malformed" : ""}${isEnd ? " end" : ""}`;
        seen.push(`${id} request ${fields.length / 2}${marks}`);
        const owner = {
          onFields: ({ fields: more }: { fields: readonly string[] }) => seen.push(`${id} fields ${more.join(" ")}`),
          onContent(content: Buffer) {
            seen.push(`${id} content ${content.toString("latin1")}`);
            return true;
          },
          onEnd: () => seen.push(`${id} end`),
          onDrain: () => seen.push(`${id} drain`),
          onClosed: (code: number) => seen.push(`${id} closed ${code}`),
        };
        streams.set(id, connection.accept(id, owner, isEnd));
      },
    },
  });
  const stream = (id: number): WireStream => {
    const found = streams.get(id);
    if (found === undefined) throw new Error(`no stream ${id}`);
    return found;
  };
  /** The frames since the last call: type, stream, flags, and the payload of short ones. */
  const sent = (): string[] => {
    connection.flush();
    let bytes = Buffer.concat(written.splice(0));
    const frames: string[] = [];
    while (bytes.length > 0) {
      const end = 9 + bytes.readUIntBE(0, 3);
      const type = Object.entries(frameTypes).find(([, number]) => number === bytes.readUInt8(3))?.[0];
      frames.push(
        `${type} ${bytes.readUInt32BE(5)} ${bytes.readUInt8(4)} ${bytes.toString("hex", 9, Math.min(end, 29))}`,
      );
      bytes = bytes.subarray(end);
    }
    return frames;
  };
  const read = (...frames: readonly Buffer[]) => {
    const bytes = Buffer.concat(frames);
    connection.read(bytes);
    // The bytes were borrowed: the next read overwrites them.
    bytes.fill(255);
  };
  return { connection, seen, sent, read, stream, controlFrames: () => controlFrames };
}

/** A connection after the preface and SETTINGS of its client. */
function begun(...given: readonly (readonly [id: number, value: number])[]) {
  const running = opened();
  running.read(clientPreface, settings(...given));
  running.sent();
  running.seen.length = 0;
  return running;
}

it("3.4: begins with SETTINGS that tell the limits, before the client has said anything", () => {
  const { sent, read, seen } = opened();
  const values = [3, 10, 4, window, 6, 8_192].map((one, i) => (i % 2 === 0 ? Buffer.from([0, one]) : uint32(one)));
  expect(sent()).toEqual([
    `settings 0 0 ${Buffer.concat(values).toString("hex")}`,
    `windowUpdate 0 0 ${uint32(2 * window - 65_535).toString("hex")}`,
  ]);
  for (const byte of Buffer.concat([clientPreface, settings()])) read(Buffer.from([byte]));
  expect(seen).toEqual(["settings"]);
  expect(sent()).toEqual(["settings 0 1 "]);
});

it.each([Buffer.from("GET / HTTP/1.1\r\n\r\n"), Buffer.from("PRI * HTTP/2.0\r\n\r\nXX"), Buffer.from("Q")])(
  "3.4: refuses a connection that begins with anything but the preface",
  (bytes) => {
    for (const size of [1, 1_000]) {
      const { seen, read, connection } = opened();
      for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size).map((one) => one) as Buffer);
      expect(seen).toEqual([`error ${errorCodes.protocolError}`]);
      expect(connection.isClosed).toBe(true);
    }
  },
);

const { protocolError, frameSizeError, flowControlError, streamClosed, compressionError, enhanceYourCalm } = errorCodes;

it.each<[string, number, readonly Buffer[]]>([
  ["3.4: the first frame acknowledges SETTINGS", protocolError, [frame("settings", { flags: 1 })]],
  ["3.4: the first frame is no SETTINGS", protocolError, [frame("ping", { payload: Buffer.alloc(8) })]],
  ["4.2: a frame of more than 16,384 bytes", frameSizeError, [raw(0, Buffer.alloc(16_385), { stream: 1 })]],
  ["4.3: a field block that cannot be decoded", compressionError, [head(1, endHeaders, Buffer.from([0x80]))]],
  ["5.1: DATA on an idle stream", protocolError, [data(3, "x")]],
  ["5.1: RST_STREAM on an idle stream", protocolError, [frame("reset", { stream: 5, payload: uint32(0) })]],
  ["5.1: WINDOW_UPDATE on an idle stream", protocolError, [frame("windowUpdate", { stream: 5, payload: uint32(1) })]],
  ["5.1: DATA behind END_STREAM", streamClosed, [head(1), data(1, "y")]],
  ["5.1: HEADERS behind END_STREAM", streamClosed, [head(1), head(1)]],
  ["5.1.1: a client begins a stream with an even number", protocolError, [head(2)]],
  ["5.1.1: HEADERS on a number that was passed over", protocolError, [head(5), head(7), head(3)]],
  ["5.1.1: DATA on a number that was passed over by none", protocolError, [head(1), data(3, "x")]],
  ["6.1: DATA on stream 0", protocolError, [data(0, "x")]],
  [
    "6.1: padding as long as the frame",
    protocolError,
    [head(1, 4), raw(0, Buffer.from([2, 0]), { set: 8, stream: 1 })],
  ],
  ["6.1: a padded frame without padding", frameSizeError, [head(1, 4), raw(0, Buffer.alloc(0), { set: 8, stream: 1 })]],
  ["6.2: HEADERS on stream 0", protocolError, [head(0)]],
  ["6.2: HEADERS with too much padding", protocolError, [raw(1, Buffer.from([3, 0x82, 0]), { set: 12, stream: 1 })]],
  ["6.2: HEADERS too short for their priority", frameSizeError, [raw(1, Buffer.from([0, 0]), { set: 36, stream: 1 })]],
  ["6.3: PRIORITY of stream 0", protocolError, [raw(2, Buffer.alloc(5))]],
  ["6.3: PRIORITY of another length", frameSizeError, [raw(2, Buffer.alloc(4), { stream: 1 })]],
  ["6.4: RST_STREAM on stream 0", protocolError, [frame("reset", { payload: uint32(0) })]],
  [
    "6.4: RST_STREAM of another length",
    frameSizeError,
    [head(1), frame("reset", { stream: 1, payload: Buffer.alloc(3) })],
  ],
  ["6.5: SETTINGS on a stream", protocolError, [frame("settings", { stream: 1 })]],
  ["6.5: SETTINGS of another length", frameSizeError, [frame("settings", { payload: Buffer.alloc(5) })]],
  ["6.5: an answer with a payload", frameSizeError, [frame("settings", { flags: 1, payload: Buffer.alloc(6) })]],
  ["6.5.2: pushes neither on nor off", protocolError, [settings([2, 2])]],
  ["6.5.2: a window that is too large", flowControlError, [settings([4, 2 ** 31])]],
  ["6.5.2: a frame size that is too small", protocolError, [settings([5, 16_383])]],
  ["6.5: hundreds of settings in a frame", enhanceYourCalm, [frame("settings", { payload: Buffer.alloc(6 * 33) })]],
  ["6.6: PUSH_PROMISE", protocolError, [head(1, 4), raw(5, Buffer.alloc(5), { set: 4, stream: 1 })]],
  ["6.7: PING on a stream", protocolError, [frame("ping", { stream: 1, payload: Buffer.alloc(8) })]],
  ["6.7: an answer to no PING", protocolError, [frame("ping", { flags: 1, payload: Buffer.alloc(8) })]],
  ["6.7: PING of another length", frameSizeError, [frame("ping", { payload: Buffer.alloc(7) })]],
  ["6.8: GOAWAY on a stream", protocolError, [frame("goaway", { stream: 1, payload: Buffer.alloc(8) })]],
  ["6.8: GOAWAY that is too short", frameSizeError, [frame("goaway", { payload: Buffer.alloc(7) })]],
  ["6.9: WINDOW_UPDATE of the connection by 0", protocolError, [frame("windowUpdate", { payload: uint32(0) })]],
  ["6.9: WINDOW_UPDATE of another length", frameSizeError, [frame("windowUpdate", { payload: Buffer.alloc(3) })]],
  [
    "6.9.1: the connection's window too large",
    flowControlError,
    [frame("windowUpdate", { payload: uint32(2 ** 31 - 1) })],
  ],
  [
    "6.9.2: a new window that is too large for a stream",
    flowControlError,
    [head(1), frame("windowUpdate", { stream: 1, payload: uint32(2 ** 31 - 65_536) }), settings([4, 65_536])],
  ],
  ["6.10: CONTINUATION without HEADERS", protocolError, [frame("continuation", { stream: 1, flags: 4 })]],
  ["6.10: CONTINUATION of another stream", protocolError, [head(1, 0), frame("continuation", { stream: 3, flags: 4 })]],
  [
    "6.10: another frame within a field block",
    protocolError,
    [head(1, 0), frame("ping", { payload: Buffer.alloc(8) })],
  ],
  ["6.10: another stream within a field block", protocolError, [head(1, 0), head(3)]],
  [
    "6.10: CONTINUATION without an end",
    enhanceYourCalm,
    [head(1, 0), ...Array.from({ length: 20 }, () => frame("continuation", { stream: 1 }))],
  ],
  [
    "6.9.1: more than the connection's window",
    flowControlError,
    [1, 3, 5].flatMap((id) => [head(id, 4), ...Array.from({ length: 5 }, () => data(id, Buffer.alloc(16_000)))]),
  ],
])("%s ends the connection", (name, code, frames) => {
  const { read, seen, sent, connection } = name.startsWith("3.4") ? opened() : begun();
  if (name.startsWith("3.4")) read(clientPreface);
  read(...frames);
  expect(seen.at(-1)).toBe(`error ${code}`);
  expect(connection.isClosed).toBe(true);
  expect(connection.openStreams).toBe(0);
  expect(sent().at(-1)).toMatch(new RegExp(`^goaway 0 0 .{8}${uint32(code).toString("hex")}`));
  const before = seen.length;
  read(settings());
  expect(seen).toHaveLength(before);
});

it.each<[string, readonly Buffer[], readonly string[]]>([
  [
    "5.5: unknown types and flags",
    [raw(77, Buffer.from("x"), { set: 255, stream: 8 }), head(1, 5 | 0x80)],
    ["1 request 4 end"],
  ],
  [
    "6.2: padding and priority of HEADERS",
    [raw(1, Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 9]), getHead, Buffer.alloc(1)]), { set: 45, stream: 1 })],
    ["1 request 4 end"],
  ],
  ["6.3: PRIORITY of any stream", [raw(2, Buffer.alloc(5), { stream: 7 }), head(1)], ["1 request 4 end"]],
  [
    "6.10: CONTINUATION",
    [head(1, 1), frame("continuation", { stream: 1, flags: 4, payload: literal("a", "b") })],
    ["1 request 5 end"],
  ],
  ["5.1.1: numbers that are passed over", [head(5), head(9)], ["5 request 4 end", "9 request 4 end"]],
  ["6.5.2: pushes on and off, and unknown settings", [settings([2, 1], [2, 0], [99, 1])], ["settings"]],
  ["6.8: GOAWAY, for pushes that do not exist", [frame("goaway", { payload: Buffer.alloc(8) })], ["goaway 0 0"]],
])("%s is accepted, in one piece and byte by byte", (_name, frames, expected) => {
  for (const size of [1, 5, 1e6]) {
    const { read, seen, connection } = begun();
    const bytes = Buffer.concat(frames);
    for (let at = 0; at < bytes.length; at += size) connection.read(bytes.subarray(at, at + size));
    expect(seen).toEqual(expected);
    read(frame("ping", { payload: Buffer.alloc(8) }));
    expect(connection.isClosed).toBe(false);
  }
});

it("8.1: keeps a body and trailers until they have a reader, and the end of an empty one too", () => {
  const { read, seen, stream } = begun();
  read(
    head(1, 4),
    data(1, "abc"),
    data(1, "def"),
    frame("headers", { stream: 1, flags: 5, payload: literal("a", "b") }),
  );
  read(head(3, 4), data(3, "", 1), head(5, 4), frame("headers", { stream: 5, flags: 5, payload: literal("c", "d") }));
  expect(seen).toEqual(["1 request 4", "3 request 4", "5 request 4"]);
  seen.length = 0;
  for (const id of [1, 3, 5]) stream(id).resume();
  expect(seen).toEqual(["1 content abcdef", "1 fields a b", "1 end", "3 end", "5 fields c d", "5 end"]);
});

it("8.1: sends the end of a response, and tells a client that is still sending that no more is wanted", () => {
  const { read, sent, seen, stream, connection } = begun();
  read(head(1), head(3, 4), data(3, "abc"), head(5, 4));
  stream(1).sendFields([":status", "204"], true);
  stream(3).sendFields([":status", "200"], false);
  stream(3).write(Buffer.from("x"), false);
  stream(3).end(["grpc-status", "0"]);
  stream(5).sendFields([":status", "400"], true);
  expect(sent().map((one) => one.split(" ").slice(0, 3).join(" "))).toEqual([
    "headers 1 5",
    "headers 3 4",
    "data 3 0",
    "headers 3 5",
    "reset 3 0",
    "headers 5 5",
    "reset 5 0",
  ]);
  expect(seen.filter((text) => text.includes("closed"))).toEqual(["1 closed 0", "3 closed 0", "5 closed 0"]);
  // What crosses the end is ignored and given back to the connection's window, and the tables stay in step.
  for (let i = 0; i < 7; i += 1) read(data(3, Buffer.alloc(16_000)));
  read(frame("headers", { stream: 3, flags: 5, payload: Buffer.from([0x40, 1, 97, 1, 98]) }));
  read(frame("reset", { stream: 5, payload: uint32(8) }), frame("windowUpdate", { stream: 1, payload: uint32(1) }));
  expect(sent()).toEqual([`windowUpdate 0 0 ${uint32(3 + 7 * 16_000).toString("hex")}`]);
  read(head(7, 5, Buffer.concat([getHead, Buffer.from([0xbe])])));
  expect(seen.at(-1)).toBe("7 request 5 end");
  expect(connection.isClosed).toBe(false);
});

it("8.1: takes every reset of a client for its leaving, also NO_ERROR and behind the end of its request", () => {
  const { read, seen, stream, connection } = begun([4, 1]);
  read(head(1, 4), data(1, "abc"), head(3));
  stream(3).sendFields([":status", "200"], false);
  stream(3).write(Buffer.from("hello"), false);
  expect(connection.queuedBytes).toBe(4);
  stream(3).end([]);
  seen.length = 0;
  read(frame("reset", { stream: 1, payload: uint32(0) }), frame("reset", { stream: 3, payload: uint32(8) }));
  expect(seen).toEqual(["reset", "1 closed 0", "reset", "3 closed 8"]);
  expect([connection.queuedBytes, connection.openStreams]).toEqual([0, 0]);
});

it("10.5: counts its resets for broken rules like those of the client, once for each stream", () => {
  const { read, seen, stream, sent } = begun();
  const counted = () => seen.filter((text) => text === "reset").length;
  read(head(1, 4), ...Array.from({ length: 7 }, () => data(1, Buffer.alloc(16_000))));
  expect(counted()).toBe(1);
  read(head(3), frame("windowUpdate", { stream: 3, payload: uint32(0) }));
  read(head(5), frame("windowUpdate", { stream: 5, payload: uint32(2 ** 31 - 1) }));
  expect(counted()).toBe(3);
  read(head(7), head(9));
  stream(7).refuse(protocolError);
  stream(7).refuse(protocolError);
  stream(9).reset(errorCodes.cancel);
  expect(counted()).toBe(4);
  const resets = sent().filter((text) => text.startsWith("reset"));
  expect(resets).toEqual([3, 1, 3, 1, 8].map((code, i) => `reset ${2 * i + 1} 0 ${uint32(code).toString("hex")}`));
});

it("6.9: sends as much as both windows allow, and the end after the rest", () => {
  const { read, sent, seen, stream, connection } = begun([4, 10]);
  read(head(1, 4));
  stream(1).sendFields([":status", "200"], false);
  sent();
  expect(stream(1).write(Buffer.alloc(25), false)).toBe(false);
  expect([stream(1).needsDrain, connection.queuedBytes]).toEqual([true, 15]);
  stream(1).end([]);
  expect(sent().map((one) => one.slice(0, 8))).toEqual(["data 1 0"]);
  expect(seen.at(-1)).toBe("1 request 4");
  read(frame("windowUpdate", { stream: 1, payload: uint32(100) }));
  expect(sent().map((one) => one.slice(0, 9))).toEqual(["data 1 1 ", "reset 1 0"]);
  expect([seen.at(-1), connection.queuedBytes]).toEqual(["1 closed 0", 0]);
});

it("6.8: tells a client to begin no more streams, then which was the last, and ignores further ones", () => {
  const { read, sent, seen, connection } = begun();
  read(head(1));
  connection.announceEnd();
  read(head(3));
  connection.leave();
  expect(sent()).toEqual([`goaway 0 0 7fffffff00000000`, `goaway 0 0 0000000300000000`]);
  seen.length = 0;
  // With an entry of the table that the next block refers to.
  read(head(5, 4, Buffer.concat([getHead, Buffer.from([0x40, 1, 97, 1, 98])])), data(5, "abc", 1), head(5));
  read(frame("reset", { stream: 5, payload: uint32(8) }));
  expect([seen, connection.isClosed, connection.openStreams]).toEqual([[], false, 2]);
});

it("10.5: counts what costs a client nothing, and says whether it is within a frame", () => {
  const { read, controlFrames, connection, seen } = begun();
  const before = controlFrames();
  read(head(1, 4), settings(), frame("ping", { payload: Buffer.alloc(8) }), data(1, ""));
  expect(controlFrames() - before).toBe(3);
  const { received } = connection;
  expect(connection.isWithinFrame).toBe(false);
  read(head(3).subarray(0, 12));
  expect([connection.isWithinFrame, connection.received]).toEqual([true, received]);
  const other = begun();
  other.read(head(1, 0));
  other.read(frame("continuation", { stream: 1 }));
  expect(other.connection.isWithinFrame).toBe(true);
  other.read(frame("continuation", { stream: 1, flags: 4 }));
  expect(other.connection.isWithinFrame).toBe(false);
  connection.ping();
  read(head(3).subarray(12), frame("ping", { flags: 1, payload: Buffer.alloc(8) }));
  expect(seen.at(-1)).toBe("pong");
});

/** More with `LATCHKEY_FUZZ=1000000`. */
const rounds = Number(process.env["LATCHKEY_FUZZ"] ?? 700);

it("does the same with the same bytes, whatever pieces they arrive in, and never breaks", {
  timeout: 3_600_000,
}, () => {
  const kinds = Object.values(frameTypes);
  const random = (): Buffer => {
    const stream = randomInt(5) === 0 ? randomInt(10) : 1 + 2 * randomInt(3);
    const lucky = randomInt(8);
    if (lucky < 2) return head(stream, randomInt(8));
    if (lucky < 4) return data(stream, randomBytes(randomInt(40)), randomInt(10) === 0 ? 1 : 0);
    if (lucky === 4) return settings([randomInt(7), randomInt(70_000)]);
    if (lucky === 5) return frame("windowUpdate", { stream, payload: uint32(randomInt(200)) });
    return raw(kinds[randomInt(kinds.length)] ?? 0, randomBytes(randomInt(12)), { set: randomInt(64), stream });
  };
  for (let round = 0; round < rounds; round += 1) {
    const bytes = Buffer.concat([head(1, 4), ...Array.from({ length: 1 + randomInt(8) }, random)]);
    if (randomInt(3) === 0) bytes.writeUInt8(randomInt(256), randomInt(bytes.length));
    const outcomes = [1, 1 + randomInt(20), 1e6].map((size) => {
      const { connection, seen, sent } = begun();
      for (let at = 0; at < bytes.length; at += size) connection.read(bytes.subarray(at, at + size));
      return JSON.stringify([seen, sent(), connection.openStreams]);
    });
    expect(new Set(outcomes).size, bytes.toString("hex")).toBe(1);
  }
});
