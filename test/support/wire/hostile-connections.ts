import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { type FrameType, frame, frameTypes, literal, uint32 } from "../../cases/control-plane/frames.ts";
import { below } from "../runner/seeded.ts";
import { contradictions, opening, type RequestFields, requestBlock } from "./hostile-http2.ts";

/** Connections of clients that send anything and leave at any time, drawn from a seed. */
export interface HostileConnections {
  /** Opens a connection to one of the listeners, and resolves when it has ended. */
  next(): Promise<void>;
}

interface HostileOptions {
  readonly random: () => number;
  /** Addresses of listeners, `http` or `https`. */
  readonly doors: readonly string[];
  /** Headers of a caller that is let in. */
  readonly headers: Readonly<Record<string, string>>;
}

const types = Object.keys(frameTypes) as FrameType[];
const paths = [
  "/proxy/x",
  "/health",
  "/webhook/dev/here",
  "/",
  "/connections",
  "/grpc.health.v1.Health/Check",
  "/livez",
];
const methods = ["GET", "POST", "PUT", "HEAD", "CONNECT", "OPTIONS", ""];
const lengths = ["0", "3", "10", "-1", "99999999999", "x"];
const contents = ["application/json", "application/grpc", "application/x-www-form-urlencoded"];
const endings = ["end", "destroy", "reset", "wait"] as const;
const http1 = [
  "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "POST /connections HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
  "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
];
const mostMs = 150;

export function createHostileConnections({ random, doors, headers }: HostileOptions): HostileConnections {
  const one = <T>(among: readonly T[]): T => among[below(random, among.length)] as T;
  const bytes = (most: number) => Buffer.from(Array.from({ length: below(random, most) }, () => below(random, 256)));

  function fields(): RequestFields {
    const more: Record<string, string> = random() < 0.5 ? { ...headers } : {};
    if (random() < 0.4) more["content-length"] = one(lengths);
    if (random() < 0.4) more["content-type"] = one(contents);
    if (random() < 0.1) more["expect"] = "100-continue";
    if (random() < 0.1) more["te"] = "trailers";
    if (random() < 0.05) more[":late"] = "x";
    return { method: one(methods), path: one(paths), authority: random() < 0.9 ? "localhost" : "evil.test", more };
  }

  function payloadOf(type: FrameType): Buffer {
    if (random() < 0.15) return bytes(40);
    if (type === "headers") return random() < 0.8 ? requestBlock(fields()) : literal("x-trailer", "1");
    if (type === "data") return Buffer.alloc(below(random, 20), "x");
    if (type === "settings")
      return random() < 0.5
        ? Buffer.alloc(0)
        : Buffer.concat([Buffer.from([0, below(random, 8)]), uint32(below(random, 2 ** 31))]);
    if (type === "ping") return Buffer.alloc(8);
    if (type === "goaway") return Buffer.concat([uint32(below(random, 9)), uint32(below(random, 14))]);
    if (type === "priority") return Buffer.alloc(5);
    if (type === "continuation") return literal("x", "y");
    return uint32(below(random, 2 ** 31));
  }

  function randomFrames(): Buffer[] {
    return Array.from({ length: 1 + below(random, 8) }, () => {
      const type = random() < 0.5 ? one(["headers", "data"] as const) : one(types);
      const stream = random() < 0.9 ? 1 + 2 * below(random, 4) : below(random, 6);
      return frame(type, {
        stream: noStream.has(type) ? 0 : stream,
        flags: one([0, 1, 4, 5, 5, 4, 0x2d]),
        payload: payloadOf(type),
      });
    });
  }

  function writes(): readonly Buffer[] {
    const kind = random();
    if (kind < 0.1) return [bytes(200)];
    if (kind < 0.2) return [Buffer.from(one(http1)).subarray(0, 1 + below(random, 200))];
    const frames = kind < 0.45 ? one(contradictions).writes(fields()) : randomFrames();
    const all = [random() < 0.9 ? opening : opening.subarray(0, below(random, opening.length)), ...frames];
    return random() < 0.7 ? [Buffer.concat(all)] : all;
  }

  async function run(socket: Socket, tcp: Socket): Promise<void> {
    socket.on("error", () => {}).resume();
    const closed = once(socket, "close").catch(() => {});
    for (const piece of writes()) {
      if (!socket.writable) break;
      socket.write(piece);
      if (random() < 0.3) await sleep(below(random, 5));
    }
    const ending = one(endings);
    if (ending === "end") socket.end();
    else if (ending === "destroy") socket.destroy();
    else if (ending === "reset") tcp.resetAndDestroy();
    const late = setTimeout(() => tcp.destroy(), below(random, mostMs));
    await closed;
    clearTimeout(late);
    tcp.destroy();
  }

  return {
    async next() {
      const { protocol, hostname, port } = new URL(one(doors));
      const tcp = connect({ port: Number(port), host: hostname, allowHalfOpen: random() < 0.5 });
      const failed = new Promise<"failed">((resolve) => tcp.once("error", () => resolve("failed")));
      tcp.on("error", () => {});
      if ((await Promise.race([once(tcp, "connect").catch(() => "failed"), failed])) === "failed") return;
      if (protocol === "http:" || random() < 0.2) return run(tcp, tcp);
      const socket = tls.connect({ socket: tcp, ALPNProtocols: [one(["h2", "http/1.1"])], rejectUnauthorized: false });
      const ready = await Promise.race([
        once(socket, "secureConnect").then(
          () => true,
          () => false,
        ),
        once(tcp, "close").then(
          () => false,
          () => false,
        ),
      ]);
      if (ready) await run(socket, tcp);
      else tcp.destroy();
    },
  };
}

const noStream: ReadonlySet<FrameType> = new Set(["settings", "ping", "goaway"]);

/** Runs so many connections, some at a time. */
export async function runHostile(hostile: HostileConnections, count: number, atOnce: number): Promise<void> {
  let left = count;
  const work = async () => {
    while (left > 0) {
      left -= 1;
      await hostile.next();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

/** The gauges that an exposition shows as open, except the connection that reads it. */
export const openGauges = (exposition: string): readonly string[] =>
  exposition
    .split("\n")
    .filter((line) => /^latchkey_(?:proxy_open|http_requests_open|connections_open|watchers_open)\b/.test(line))
    .filter((line) => !/ 0$/.test(line) && line !== 'latchkey_connections_open{door="ops"} 1');
