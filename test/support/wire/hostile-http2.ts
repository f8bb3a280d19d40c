import { once } from "node:events";
import { connect, type Socket } from "node:net";
import tls from "node:tls";
import { flags, frame, literal, uint32 } from "../../cases/control-plane/frames.ts";

/** The first bytes of an HTTP/2 client: the preface and SETTINGS. */
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
  /** Frames after the opening, each in its own write. */
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

/** Requests whose later frames contradict the first, in a single write. */
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

interface Target {
  readonly address: string;
  /** Offered by ALPN. */
  readonly protocols?: string[];
}

/** A client's connection to a listener, over TLS if the listener uses TLS. */
export interface Peer {
  /** Stays open after the listener closed its side. */
  readonly socket: Socket;
  /** The TCP connection below TLS; the same without. */
  readonly tcp: Socket;
}

/** A connection without TLS, even to a TLS listener. */
export async function dialTcp(address: string): Promise<Peer> {
  const { hostname, port } = new URL(address);
  const tcp = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  await once(tcp, "connect");
  // A listener may reset a connection that breaks its rules.
  tcp.on("error", () => {});
  return { socket: tcp.resume(), tcp };
}

export async function dial({ address, protocols = ["h2", "http/1.1"] }: Target): Promise<Peer> {
  const plain = await dialTcp(address);
  if (address.startsWith("http:")) return plain;
  const { tcp } = plain;
  const socket = tls.connect({
    socket: tcp.pause(),
    ALPNProtocols: protocols,
    rejectUnauthorized: false,
  });
  await once(socket, "secureConnect");
  socket.on("error", () => {}).resume();
  return { socket, tcp };
}
