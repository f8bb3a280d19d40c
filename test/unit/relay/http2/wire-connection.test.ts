import { randomBytes, randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { errorCodes } from "../../../../src/relay/http2/wire/error-codes.ts";
import { clientPreface } from "../../../../src/relay/http2/wire/frames.ts";
import { WireConnection } from "../../../../src/relay/http2/wire/wire-connection.ts";
import type { WireStream } from "../../../../src/relay/http2/wire/wire-stream.ts";
import { flags, frame, frameTypes, literal, uint32 } from "../../../cases/control-plane/frames.ts";

/** The client side of a connection, without a socket: what it does with the bytes of a server. */

const window = 100_000;
const settings = (...values: readonly (readonly [id: number, value: number])[]) =>
  frame("settings", {
    payload: Buffer.concat(values.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), uint32(value)]))),
  });
const status = Buffer.from([0x88]);
const head = (stream: number, set: number = flags.endHeaders) =>
  frame("headers", { stream, flags: set, payload: status });
const data = (stream: number, content: string | Buffer, set = 0) =>
  frame("data", { stream, flags: set, payload: Buffer.from(content) });
const raw = (type: number, payload: Buffer, { set = 0, stream = 0 } = {}) => {
  const bytes = frame("data", { flags: set, stream, payload });
  bytes.writeUInt8(type, 3);
  return bytes;
};

interface Sent {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

function opened({ unsent = 0 } = {}) {
  const written: Buffer[] = [];
  const sink = { write: (bytes: Buffer) => written.push(Buffer.from(bytes)) > 0, unsentBytes: unsent };
  const seen: string[] = [];
  let controlFrames = 0;
  const connection = new WireConnection({
    sink,
    streamWindow: window,
    connectionWindow: 2 * window,
    maxFields: 100,
    maxListBytes: 8_192,
    owner: {
      onDirty() {},
      onSettings: () => seen.push("settings"),
      onGoaway: (last, code) => seen.push(`goaway ${last} ${code}`),
      onControlFrame: () => {
        controlFrames += 1;
      },
      onError: ({ code }) => seen.push(`error ${code}`),
    },
  });
  const takesMore = new Map<number, boolean>();
  const contents: string[] = [];
  const open = (isEnd = true): WireStream => {
    const stream: WireStream = connection.open(
      {
        onFields: ({ fields }, isLast) => seen.push(`${stream.id} fields ${fields.join(" ")}${isLast ? " end" : ""}`),
        onContent(content) {
          seen.push(`${stream.id} content ${content.length}`);
          contents.push(content.toString("latin1"));
          return takesMore.get(stream.id) ?? true;
        },
        onEnd: () => seen.push(`${stream.id} end`),
        onDrain: () => seen.push(`${stream.id} drain`),
        onClosed: (code) => seen.push(`${stream.id} closed ${code}`),
      },
      [":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/"],
      isEnd,
      [],
    );
    return stream;
  };
  /** The frames since the last call. */
  const sent = (): Sent[] => {
    connection.flush();
    let bytes = Buffer.concat(written.splice(0));
    if (bytes.subarray(0, 24).equals(clientPreface)) bytes = bytes.subarray(24);
    const frames: Sent[] = [];
    while (bytes.length > 0) {
      const end = 9 + bytes.readUIntBE(0, 3);
      const [type, set, stream] = [bytes.readUInt8(3), bytes.readUInt8(4), bytes.readUInt32BE(5)];
      frames.push({ type, flags: set, stream, payload: bytes.subarray(9, end) });
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
  return { connection, seen, contents, sent, open, read, takesMore, sink, controlFrames: () => controlFrames };
}

/** A connection with an open stream 1, after the SETTINGS of the server. */
function begun(...given: readonly (readonly [id: number, value: number])[]) {
  const running = opened();
  const stream = running.open(false);
  running.read(settings(...given));
  running.sent();
  running.seen.length = 0;
  return { ...running, stream };
}

it("3.4: begins with the preface, SETTINGS that forbid pushes, and its windows", () => {
  const { sent } = opened();
  expect(sent()).toEqual([
    {
      type: frameTypes.settings,
      flags: 0,
      stream: 0,
      payload: Buffer.concat([Buffer.from([0, 2]), uint32(0), Buffer.from([0, 4]), uint32(window)]),
    },
    { type: frameTypes.windowUpdate, flags: 0, stream: 0, payload: uint32(2 * window - 65_535) },
  ]);
});

const { protocolError, frameSizeError, flowControlError, streamClosed, compressionError, enhanceYourCalm } = errorCodes;

it.each<[string, number, readonly Buffer[]]>([
  ["3.4: the first frame acknowledges SETTINGS", protocolError, [frame("settings", { flags: 1 })]],
  ["3.4: the first frame is no SETTINGS", protocolError, []],
  ["4.2: a frame of more than 16,384 bytes", frameSizeError, [raw(0, Buffer.alloc(16_385), { stream: 1 })]],
  [
    "4.3: a field block that cannot be decoded",
    compressionError,
    [frame("headers", { stream: 1, flags: 4, payload: Buffer.from([0x80]) })],
  ],
  ["5.1: DATA on an idle stream", protocolError, [data(3, "x")]],
  ["5.1: HEADERS on an idle stream", protocolError, [head(3)]],
  ["5.1: RST_STREAM on an idle stream", protocolError, [frame("reset", { stream: 5, payload: uint32(0) })]],
  ["5.1: WINDOW_UPDATE on an idle stream", protocolError, [frame("windowUpdate", { stream: 5, payload: uint32(1) })]],
  ["5.1: DATA behind END_STREAM", streamClosed, [head(1), data(1, "x", 1), data(1, "y")]],
  ["5.1: HEADERS behind END_STREAM", streamClosed, [head(1, 5), head(1)]],
  ["5.1.1: a stream that the server opens", protocolError, [head(2)]],
  ["6.1: DATA on stream 0", protocolError, [data(0, "x")]],
  ["6.1: padding as long as the frame", protocolError, [head(1), raw(0, Buffer.from([2, 0]), { set: 8, stream: 1 })]],
  [
    "6.1: a padded frame without a length of padding",
    frameSizeError,
    [head(1), raw(0, Buffer.alloc(0), { set: 8, stream: 1 })],
  ],
  ["6.2: HEADERS on stream 0", protocolError, [head(0)]],
  [
    "6.2: HEADERS with padding that is too long",
    protocolError,
    [raw(1, Buffer.from([3, 0x88, 0]), { set: 12, stream: 1 })],
  ],
  ["6.2: HEADERS too short for their priority", frameSizeError, [raw(1, Buffer.from([0, 0]), { set: 36, stream: 1 })]],
  ["6.3: PRIORITY of another length", frameSizeError, [raw(2, Buffer.alloc(4), { stream: 1 })]],
  ["6.4: RST_STREAM on stream 0", protocolError, [frame("reset", { payload: uint32(0) })]],
  ["6.4: RST_STREAM of another length", frameSizeError, [frame("reset", { stream: 1, payload: Buffer.alloc(3) })]],
  ["6.5: SETTINGS on a stream", protocolError, [frame("settings", { stream: 1 })]],
  ["6.5: SETTINGS of another length", frameSizeError, [frame("settings", { payload: Buffer.alloc(5) })]],
  [
    "6.5: acknowledged SETTINGS with a payload",
    frameSizeError,
    [frame("settings", { flags: 1, payload: Buffer.alloc(6) })],
  ],
  ["6.5.2: a server that enables pushes", protocolError, [settings([2, 1])]],
  ["6.5.2: a window that is too large", flowControlError, [settings([4, 2 ** 31])]],
  ["6.5.2: a frame size that is too small", protocolError, [settings([5, 16_383])]],
  ["6.5.2: a frame size that is too large", protocolError, [settings([5, 2 ** 24])]],
  ["6.5: hundreds of settings in a frame", enhanceYourCalm, [frame("settings", { payload: Buffer.alloc(6 * 33) })]],
  ["6.6: PUSH_PROMISE", protocolError, [raw(5, Buffer.alloc(5), { set: 4, stream: 1 })]],
  ["6.7: PING on a stream", protocolError, [frame("ping", { stream: 1, payload: Buffer.alloc(8) })]],
  ["6.7: an answer to no PING", protocolError, [frame("ping", { flags: 1, payload: Buffer.alloc(8) })]],
  ["6.7: PING of another length", frameSizeError, [frame("ping", { payload: Buffer.alloc(7) })]],
  ["6.8: GOAWAY on a stream", protocolError, [frame("goaway", { stream: 1, payload: Buffer.alloc(8) })]],
  [
    "6.8: GOAWAY that names a stream of the server",
    protocolError,
    [frame("goaway", { payload: Buffer.concat([uint32(2), uint32(0)]) })],
  ],
  ["6.8: GOAWAY that is too short", frameSizeError, [frame("goaway", { payload: Buffer.alloc(7) })]],
  ["6.9: WINDOW_UPDATE of the connection by 0", protocolError, [frame("windowUpdate", { payload: uint32(0) })]],
  ["6.9: WINDOW_UPDATE of another length", frameSizeError, [frame("windowUpdate", { payload: Buffer.alloc(3) })]],
  [
    "6.9.1: the connection's window beyond its limit",
    flowControlError,
    [frame("windowUpdate", { payload: uint32(2 ** 31 - 1) })],
  ],
  [
    "6.9.2: a new window that is too large for a stream",
    flowControlError,
    [frame("windowUpdate", { stream: 1, payload: uint32(2 ** 31 - 65_536) }), settings([4, 65_536])],
  ],
  [
    "6.10: CONTINUATION without HEADERS",
    protocolError,
    [frame("continuation", { stream: 1, flags: 4, payload: status })],
  ],
  ["6.10: CONTINUATION of another stream", protocolError, [head(1, 0), frame("continuation", { stream: 3, flags: 4 })]],
  [
    "6.10: another frame within a field block",
    protocolError,
    [head(1, 0), frame("ping", { payload: Buffer.alloc(8) })],
  ],
  ["6.10: DATA within a field block", protocolError, [head(1, 0), data(1, "x")]],
  [
    "6.10: CONTINUATION without an end",
    enhanceYourCalm,
    [head(1, 0), ...Array.from({ length: 20 }, () => frame("continuation", { stream: 1 }))],
  ],
])("%s ends the connection", (name, code, frames) => {
  const { read, seen, sent, connection } = name.startsWith("3.4") ? opened() : begun();
  read(...(frames.length > 0 ? frames : [frame("ping", { payload: Buffer.alloc(8) })]));
  expect(seen.at(-1)).toBe(`error ${code}`);
  expect(connection.isClosed).toBe(true);
  const last = sent().at(-1);
  expect([last?.type, last?.payload.readUInt32BE(4)]).toEqual([frameTypes.goaway, code]);
  // Every stream has been told, once, and nothing more is read.
  const closed = seen.filter((text) => text.startsWith("1 closed"));
  expect(closed).toHaveLength(name.startsWith("3.4") ? 0 : 1);
  const before = seen.length;
  read(settings());
  expect(seen).toHaveLength(before);
});

it.each<[string, readonly Buffer[], string | undefined]>([
  ["5.5: unknown types and flags", [raw(77, Buffer.from("x"), { set: 255, stream: 9 }), head(1, 5 | 0x80)], "1 end"],
  [
    "6.2: padding and priority of HEADERS",
    [raw(1, Buffer.from([1, 0, 0, 0, 0, 9, 0x88, 0]), { set: 44, stream: 1 })],
    "1 fields :status 200",
  ],
  ["6.1: padding of DATA", [head(1), raw(0, Buffer.from([2, 120, 0, 0]), { set: 8, stream: 1 })], "1 content 1"],
  ["6.3: PRIORITY", [raw(2, Buffer.alloc(5), { stream: 7 })], undefined],
  [
    "6.10: CONTINUATION",
    [head(1, 0), frame("continuation", { stream: 1, flags: 4, payload: literal("a", "b") })],
    "1 fields :status 200 a b",
  ],
  ["6.5: unknown settings", [settings([99, 1])], "settings"],
  [
    "8.1: trailers",
    [head(1), data(1, "abc"), frame("headers", { stream: 1, flags: 5, payload: literal("a", "b") })],
    "1 end",
  ],
])("%s is accepted, in one piece and byte by byte", (_name, frames, expected) => {
  for (const size of [1, 5, 1e6]) {
    const { read, seen, connection } = begun();
    const bytes = Buffer.concat(frames);
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
    expect(seen.at(-1)).toBe(expected);
    expect(connection.isClosed).toBe(false);
  }
});

it("5.1: ignores what crosses a reset, counts it, and keeps the tables in step", () => {
  const { read, seen, sent, stream, open } = begun();
  stream.reset(errorCodes.cancel);
  expect(seen.splice(0)).toEqual(["1 closed 8"]);
  expect(sent()).toEqual([{ type: frameTypes.reset, flags: 0, stream: 1, payload: uint32(8) }]);
  // With incremental indexing.
  read(frame("headers", { stream: 1, flags: 4, payload: Buffer.from([0x40, 1, 97, 1, 98]) }));
  for (let i = 0; i < 12; i += 1) read(data(1, Buffer.alloc(10_000)));
  read(frame("windowUpdate", { stream: 1, payload: uint32(1) }), frame("reset", { stream: 1, payload: uint32(0) }));
  expect(sent()).toEqual([{ type: frameTypes.windowUpdate, flags: 0, stream: 0, payload: uint32(100_000) }]);
  open();
  read(frame("headers", { stream: 3, flags: 5, payload: Buffer.from([0x88, 0xbe]) }));
  expect(seen).toEqual(["3 fields :status 200 a b end", "3 end", "3 closed 0"]);
});

it("5.2: gives the peer room only for what its reader took, and holds a window of a stream that is not read", () => {
  const { read, seen, sent, stream, takesMore } = begun();
  takesMore.set(1, false);
  read(head(1), data(1, Buffer.alloc(16_384)));
  for (let i = 0; i < 5; i += 1) read(data(1, Buffer.alloc(16_384)));
  expect(seen).toEqual(["1 fields :status 200", "1 content 16384"]);
  expect(sent()).toEqual([]);
  stream.resume();
  expect(seen.at(-1)).toBe("1 content 16384");
  expect(seen).toHaveLength(3);
  takesMore.set(1, true);
  stream.resume();
  expect(seen).toHaveLength(7);
  // Half of the stream's window, and soon of the connection's, can be given back.
  expect(sent()).toEqual([{ type: frameTypes.windowUpdate, flags: 0, stream: 1, payload: uint32(4 * 16_384) }]);
  takesMore.set(1, false);
  for (let i = 0; i < 4; i += 1) read(data(1, Buffer.alloc(16_384)));
  expect(sent().map(({ type, stream: on }) => [type, on])).toEqual([[frameTypes.windowUpdate, 0]]);
  // A stream that ends gives the connection back what its reader has not taken: three frames.
  stream.reset(errorCodes.cancel);
  for (let i = 0; i < 4; i += 1) read(data(1, Buffer.alloc(16_384)));
  expect(sent().map(({ type, stream: on }) => [type, on])).toEqual([
    [frameTypes.reset, 1],
    [frameTypes.windowUpdate, 0],
  ]);
});

it("keeps copies of what it cannot give on or send, since the bytes are borrowed", () => {
  const { read, contents, stream, takesMore, sent } = begun([4, 2]);
  takesMore.set(1, false);
  read(head(1), data(1, "abc"));
  read(data(1, "def").subarray(0, 11));
  takesMore.set(1, true);
  stream.resume();
  expect(contents).toEqual(["abc", "de"]);
  const borrowed = Buffer.from("hello");
  stream.write(borrowed, true);
  borrowed.fill("x");
  read(Buffer.from("f"), frame("windowUpdate", { stream: 1, payload: uint32(9) }));
  expect(sent().map(({ payload }) => payload.toString())).toEqual(["he", "llo"]);
});

it("joins small pieces that wait for a reader", () => {
  const { stream, read, seen, contents, takesMore } = begun();
  takesMore.set(1, false);
  read(head(1), data(1, "a"));
  const text = randomBytes(5_000).toString("hex");
  for (const byte of text) read(data(1, byte));
  const before = seen.length;
  stream.resume();
  // One piece of several thousand bytes, in place of each byte.
  expect(seen.slice(before)).toEqual(["1 content 4096"]);
  read(data(1, "b"));
  takesMore.set(1, true);
  stream.resume();
  expect(seen.length - before).toBeLessThan(5);
  expect(contents.join("")).toBe(`a${text}b`);
  takesMore.set(1, false);
  read(data(1, "c"), data(1, "d"), data(1, "e"));
  stream.resume();
  expect(contents.slice(-2)).toEqual(["c", "de"]);
});

it("5.2: gives the connection's window back for content that is read after the end of its stream", () => {
  const { read, sent, open, takesMore } = begun();
  const stream = open();
  takesMore.set(3, false);
  read(head(3));
  for (let i = 0; i < 6; i += 1) read(data(3, Buffer.alloc(16_000), i === 5 ? 1 : 0));
  takesMore.set(3, true);
  stream.resume();
  read(data(1, ""), head(1), data(1, Buffer.alloc(16_000)));
  expect(sent().filter(({ type }) => type === frameTypes.windowUpdate)).toEqual([
    { type: frameTypes.windowUpdate, flags: 0, stream: 0, payload: uint32(7 * 16_000) },
  ]);
});

it("5.2: resets a stream whose peer exceeds its window, and ends a connection for its own", () => {
  const one = begun();
  one.takesMore.set(1, false);
  one.read(head(1));
  for (let i = 0; i < 7; i += 1) one.read(data(1, Buffer.alloc(16_000)));
  expect(one.seen.at(-1)).toBe("1 closed 3");
  expect(one.connection.isClosed).toBe(false);
  const many = begun();
  for (const id of [3, 5, 7]) many.takesMore.set(id, false);
  for (const id of [3, 5, 7]) {
    many.open();
    many.read(head(id));
    for (let i = 0; i < 5; i += 1) many.read(data(id, Buffer.alloc(16_000)));
  }
  expect(many.seen.at(-1)).toBe(`error ${flowControlError}`);
});

it("6.9: sends as much as both windows allow, in turn, and ends after the rest", () => {
  const { read, sent, stream, open, seen } = begun([4, 20_000]);
  const second = open(false);
  sent();
  expect(stream.write(Buffer.alloc(50_000), true)).toBe(false);
  stream.end(["a", "b"]);
  expect(second.write(Buffer.alloc(30_000), true)).toBe(false);
  const lengths = () =>
    sent().map(({ stream: on, type, payload }) => `${on}:${type === 0 ? payload.length : `type ${type}`}`);
  expect(lengths()).toEqual(["1:16384", "1:3616", "3:16384", "3:3616"]);
  read(frame("windowUpdate", { stream: 1, payload: uint32(100_000) }));
  // The connection's window is 65,535: 25,535 are left.
  expect(lengths()).toEqual(["1:16384", "1:9151"]);
  read(frame("windowUpdate", { stream: 3, payload: uint32(100_000) }));
  expect(lengths()).toEqual([]);
  read(frame("windowUpdate", { payload: uint32(100_000) }));
  expect(lengths()).toEqual(["1:4465", "1:type 1", "3:10000"]);
  expect(seen).toEqual(["3 drain"]);
  // A smaller initial window makes the window negative, and a larger one opens it again.
  read(settings([4, 0]));
  second.write(Buffer.alloc(100_000), true);
  read(frame("windowUpdate", { payload: uint32(1_000_000) }));
  sent();
  read(settings([4, 60_000]));
  expect(lengths().slice(1).length).toBeGreaterThan(0);
});

it("ends a stream within its last DATA frame, or with an empty one", () => {
  const { stream, sent, open } = begun();
  stream.write(Buffer.from("abc"), true);
  stream.end([]);
  expect(sent()).toEqual([{ type: 0, flags: 1, stream: 1, payload: Buffer.from("abc") }]);
  const second = open(false);
  second.write(Buffer.from("abc"), true);
  sent();
  second.end([]);
  expect(sent()).toEqual([{ type: 0, flags: 1, stream: 3, payload: Buffer.alloc(0) }]);
});

it("keeps content back from a socket that does not take it, and goes on when it does", () => {
  const { stream, sent, sink, seen, connection } = begun();
  sink.unsentBytes = 200_000;
  expect(stream.write(Buffer.from("abc"), true)).toBe(false);
  expect(sent()).toEqual([]);
  sink.unsentBytes = 0;
  connection.drained();
  expect(sent()).toHaveLength(1);
  expect(seen).toEqual(["1 drain"]);
});

it("splits a field block that is too large for a frame", () => {
  const { sent, connection, read, seen } = begun();
  const owner = { onFields() {}, onContent: () => true, onEnd() {}, onDrain() {}, onClosed() {} };
  connection.open(owner, [":method", "GET", "x-large", "y".repeat(40_000)], true, []);
  expect(sent().map(({ type, flags: set, payload }) => [type, set, payload.length > 7_000])).toEqual([
    [frameTypes.headers, flags.endStream, true],
    [frameTypes.continuation, 0, true],
    [frameTypes.continuation, flags.endHeaders, true],
  ]);
  read(frame("ping", { payload: Buffer.from("12345678") }));
  expect(sent()).toEqual([{ type: frameTypes.ping, flags: flags.ack, stream: 0, payload: Buffer.from("12345678") }]);
  expect(seen).toEqual([]);
});

it("counts the frames that cost the peer nothing", () => {
  const { read, controlFrames } = begun();
  const before = controlFrames();
  read(head(1), settings(), frame("ping", { payload: Buffer.alloc(8) }), data(1, ""));
  expect(controlFrames() - before).toBe(3);
});

it("6.7: takes as many answers as it has sent PINGs", () => {
  const { connection, read, sent, seen } = begun();
  connection.ping();
  expect(sent()).toEqual([{ type: frameTypes.ping, flags: 0, stream: 0, payload: Buffer.alloc(8) }]);
  const answered = frame("ping", { flags: flags.ack, payload: Buffer.alloc(8) });
  read(answered);
  expect(seen).toEqual([]);
  read(answered);
  expect(seen.at(-1)).toBe(`error ${protocolError}`);
});

it("6.8: ends the streams that a GOAWAY excludes, as refused", () => {
  const { read, seen, open } = begun();
  open();
  read(frame("goaway", { payload: Buffer.concat([uint32(1), uint32(0)]) }));
  expect(seen).toEqual(["goaway 1 0", "3 closed 7"]);
});

it("8.1: gives the content before NO_ERROR on, with an end only behind END_STREAM", () => {
  const paused = begun();
  paused.takesMore.set(1, false);
  paused.read(head(1), data(1, "a"), data(1, "b", 1), frame("reset", { stream: 1, payload: uint32(0) }));
  paused.takesMore.set(1, true);
  paused.stream.resume();
  expect(paused.seen).toEqual(["1 fields :status 200", "1 content 1", "1 content 1", "1 end", "1 closed 0"]);
  const unended = begun();
  unended.takesMore.set(1, false);
  unended.read(head(1), data(1, "a"), data(1, "b"), frame("reset", { stream: 1, payload: uint32(0) }));
  unended.takesMore.set(1, true);
  unended.stream.resume();
  expect(unended.seen).toEqual(["1 fields :status 200", "1 content 1", "1 content 1", "1 closed 0"]);
  const cut = begun();
  cut.read(head(1), data(1, "a"), frame("reset", { stream: 1, payload: uint32(2) }));
  expect(cut.seen).toEqual(["1 fields :status 200", "1 content 1", "1 closed 2"]);
});

/** More with `LATCHKEY_FUZZ=1000000`. */
const rounds = Number(process.env["LATCHKEY_FUZZ"] ?? 1_500);

it("does the same with the same bytes, whatever pieces they arrive in, and never breaks", {
  timeout: 3_600_000,
}, () => {
  const kinds = Object.values(frameTypes);
  const random = (): Buffer => {
    const stream = randomInt(5) === 0 ? randomInt(10) : 1;
    const lucky = randomInt(8);
    if (lucky < 2) return head(stream, randomInt(8));
    if (lucky < 4) return data(stream, randomBytes(randomInt(40)), randomInt(10) === 0 ? 1 : 0);
    if (lucky === 4) return settings([randomInt(7), randomInt(70_000)]);
    if (lucky === 5) return frame("windowUpdate", { stream, payload: uint32(randomInt(200)) });
    return raw(kinds[randomInt(kinds.length)] ?? 0, randomBytes(randomInt(12)), { set: randomInt(64), stream });
  };
  for (let round = 0; round < rounds; round += 1) {
    const bytes = Buffer.concat(Array.from({ length: 1 + randomInt(8) }, random));
    if (randomInt(3) === 0) bytes.writeUInt8(randomInt(256), randomInt(bytes.length));
    const outcomes = [1, 1 + randomInt(20), 1e6].map((size) => {
      const { read, seen, sent, stream } = begun();
      stream.write(Buffer.from("abc"), true);
      for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
      // Content arrives in as many pieces as reads.
      const content = seen
        .map((text) => Number(/^1 content (\d+)/.exec(text)?.[1] ?? 0))
        .reduce((sum, one) => sum + one, 0);
      return JSON.stringify([content, seen.filter((text) => !text.includes("content")), sent()]);
    });
    expect(new Set(outcomes).size, bytes.toString("hex")).toBe(1);
  }
});
