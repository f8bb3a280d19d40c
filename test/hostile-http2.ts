import { once } from "node:events";
import { connect, type Socket } from "node:net";
import tls from "node:tls";
import { flags, frame, literal, uint32 } from "./control-plane/frames.ts";

/** What an HTTP/2 client sends first: the preface, then SETTINGS. */
export const opening = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame("settings")]);

export interface RequestFields {
  readonly method?: string;
  readonly path: string;
  readonly authority?: string;
  readonly more?: Readonly<Record<string, string>>;
}

/** The HPACK block of a request. */
export const requestBlock = ({ method = "POST", path, authority = "localhost", more = {} }: RequestFields): Buffer =>
  Buffer.concat([
    literal(":method", method),
    literal(":scheme", "http"),
    literal(":authority", authority),
    literal(":path", path),
    ...Object.entries(more).map(([name, value]) => literal(name, value)),
  ]);

export interface Attack {
  readonly name: string;
  /** Frames that are sent behind the opening, each in a write of its own. */
  readonly writes: (fields: RequestFields) => readonly Buffer[];
}

const { endHeaders, endStream } = flags;

function headersOf(fields: RequestFields, more: Readonly<Record<string, string>>, set: number = endHeaders): Buffer {
  return frame("headers", {
    stream: 1,
    flags: set,
    payload: requestBlock({ ...fields, more: { ...fields.more, ...more } }),
  });
}

const data = (bytes: number, set: number = endStream): Buffer =>
  frame("data", { stream: 1, flags: set, payload: Buffer.alloc(bytes, "x") });

/** Requests whose later frames make no sense, all of it in one write. */
export const contradictions: readonly Attack[] = [
  {
    name: "more DATA than content-length",
    writes: (fields) => [Buffer.concat([headersOf(fields, { "content-length": "3" }), data(10)])],
  },
  {
    name: "less DATA than content-length",
    writes: (fields) => [Buffer.concat([headersOf(fields, { "content-length": "10" }), data(3)])],
  },
  {
    name: "DATA of the right length and then more",
    writes: (fields) => [Buffer.concat([headersOf(fields, { "content-length": "3" }), data(3, 0), data(7)])],
  },
  {
    name: "a content-length and no DATA",
    writes: (fields) => [headersOf(fields, { "content-length": "3" }, endHeaders | endStream)],
  },
  {
    name: "trailers before the end of the body",
    writes: (fields) => [
      Buffer.concat([
        headersOf(fields, { "content-length": "9" }),
        data(3, 0),
        frame("headers", { stream: 1, flags: endHeaders | endStream, payload: literal("x-sum", "1") }),
      ]),
    ],
  },
  {
    name: "trailers with a pseudo-header",
    writes: (fields) => [
      Buffer.concat([
        headersOf(fields, {}),
        data(3, 0),
        frame("headers", { stream: 1, flags: endHeaders | endStream, payload: literal(":path", "/") }),
      ]),
    ],
  },
  {
    name: "trailers that do not end the stream",
    writes: (fields) => [
      Buffer.concat([
        headersOf(fields, {}),
        data(3, 0),
        frame("headers", { stream: 1, flags: endHeaders, payload: literal("x-sum", "1") }),
      ]),
    ],
  },
  {
    name: "RST_STREAM",
    writes: (fields) => [
      Buffer.concat([headersOf(fields, { "content-length": "3" }), frame("reset", { stream: 1, payload: uint32(1) })]),
    ],
  },
  {
    name: "GOAWAY with an error",
    writes: (fields) => [
      Buffer.concat([
        headersOf(fields, { "content-length": "3" }),
        frame("goaway", { payload: Buffer.concat([uint32(0), uint32(2)]) }),
      ]),
    ],
  },
  {
    name: "DATA on stream 0",
    writes: (fields) => [Buffer.concat([headersOf(fields, {}), frame("data", { payload: Buffer.from("x") })])],
  },
  {
    name: "a window that overflows",
    writes: (fields) => [
      Buffer.concat([
        headersOf(fields, {}),
        frame("windowUpdate", { stream: 1, payload: uint32(2 ** 31 - 1) }),
        frame("windowUpdate", { stream: 1, payload: uint32(2 ** 31 - 1) }),
      ]),
    ],
  },
  {
    name: "a header block that never ends and then DATA",
    writes: (fields) => [Buffer.concat([headersOf(fields, {}, 0), data(3)])],
  },
  {
    name: "a header block that is no HPACK",
    writes: (fields) => [
      Buffer.concat([
        headersOf(fields, {}),
        frame("headers", { stream: 3, flags: endHeaders, payload: Buffer.alloc(20, 0xff) }),
      ]),
    ],
  },
  {
    name: "more DATA than content-length, a write later",
    writes: (fields) => [headersOf(fields, { "content-length": "3" }), data(10)],
  },
];

export interface Target {
  readonly address: string;
}

/** A connection to a door, over TLS with ALPN `h2` where the door speaks TLS. */
export async function dial({ address }: Target): Promise<Socket> {
  const { protocol, hostname, port } = new URL(address);
  const isTls = protocol === "https:";
  const socket = isTls
    ? tls.connect({ port: Number(port), host: hostname, ALPNProtocols: ["h2", "http/1.1"], rejectUnauthorized: false })
    : connect(Number(port), hostname);
  const connected = once(socket, isTls ? "secureConnect" : "connect");
  // A door that resets what breaks its rules does what it should.
  connected.then(
    () => socket.on("error", () => {}),
    () => {},
  );
  await connected;
  socket.resume();
  return socket;
}
