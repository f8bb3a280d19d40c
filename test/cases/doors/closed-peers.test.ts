import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { fill } from "../../deploy/slow-provider.ts";
import {
  type DoorName,
  doorNames,
  expectUnharmed,
  openFiles,
  serveAllDoors,
  statusAt,
  textAt,
} from "../../support/sidecar/door-process.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { dial, opening, type Peer, requestBlock } from "../../support/wire/hostile-http2.ts";
import { flags, frame, grpcHead } from "../control-plane/frames.ts";

/** How a client disconnects: by FIN while it still reads, by destroying its socket, or by RST. */
const endings: Readonly<Record<string, (peer: Peer) => unknown>> = {
  "a FIN alone": ({ socket }) => socket.end(),
  "a FIN below TLS": ({ tcp }) => tcp.end(),
  "a closed socket": ({ socket }) => socket.destroy(),
  "a reset": ({ tcp }) => tcp.resetAndDestroy(),
};

interface Phase {
  readonly name: string;
  readonly doors: readonly DoorName[];
  readonly bytes: Buffer;
  /** The listener answers these bytes. */
  readonly isAnswered?: true;
}

const { endHeaders, endStream } = flags;
const all = doorNames;
const both = ["data", "public", "control"] as const;
const webhooks = ["data", "public"] as const;

const proxied = { authorization: `Bearer ${secretKey}`, "provider-config-key": "here", "connection-id": "ada" };
const lines = Object.entries(proxied).map(([name, value]) => `${name}: ${value}`);
const upgrade = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
const http1 = (first: string, ...more: readonly string[]) =>
  Buffer.from(`${[`${first} HTTP/1.1`, "Host: localhost", ...more].join("\r\n")}\r\n\r\n`);
const headers = (payload: Buffer, set: number = endHeaders) => frame("headers", { stream: 1, flags: set, payload });
const http2 = (...frames: readonly Buffer[]) => Buffer.concat([opening, ...frames]);
const body = (bytes: Buffer, set = 0) => frame("data", { stream: 1, flags: set, payload: bytes });
const grpc = (method: string) =>
  headers(grpcHead(`/grpc.health.v1.Health/${method}`, { authorization: `Bearer ${adminKey}` }));
const get = (path: string, more = {}) => headers(requestBlock({ method: "GET", path, more }), endHeaders | endStream);
const posted = headers(requestBlock({ path: "/webhook/dev/here" }));

const phases: readonly Phase[] = [
  { name: "nothing said", doors: all, bytes: Buffer.alloc(0) },
  { name: "half of a head", doors: all, bytes: Buffer.from("GET /nowhere HTTP/1.1\r\nHo") },
  { name: "an answer", doors: all, bytes: http1("GET /nowhere"), isAnswered: true },
  { name: "half of a body", doors: all, bytes: http1("POST /integrations", "Content-Length: 9") },
  { name: "a request to a provider", doors: ["data"], bytes: http1("GET /proxy/silent", ...lines) },
  { name: "an upgrade under way", doors: ["data"], bytes: http1("GET /proxy/silent", ...lines, ...upgrade) },
  { name: "a page's WebSocket", doors: webhooks, bytes: http1("GET /", ...upgrade), isAnswered: true },
  { name: "half of the preface", doors: both, bytes: opening.subarray(0, 20) },
  { name: "the preface alone", doors: both, bytes: opening.subarray(0, 24), isAnswered: true },
  { name: "the preface and SETTINGS", doors: both, bytes: opening, isAnswered: true },
  { name: "a stream that was answered", doors: both, bytes: http2(get("/nowhere")), isAnswered: true },
  { name: "a head without its end", doors: both, bytes: http2(headers(requestBlock({ path: "/x" }), 0)) },
  { name: "half of a stream's body", doors: webhooks, bytes: http2(posted, body(Buffer.from("x"))) },
  { name: "a stream to a provider", doors: ["data"], bytes: http2(get("/proxy/silent", proxied)) },
  { name: "a watch", doors: ["control"], bytes: http2(grpc("Watch"), body(Buffer.alloc(5), endStream)) },
  { name: "half of a message", doors: ["control"], bytes: http2(grpc("Check"), body(Buffer.from([0, 0, 0, 0, 9]))) },
];
const each = 5;

const variants = [["without TLS", false], ...(lacks("openssl") ? [] : [["with TLS", true] as const])] as const;

describe.each(variants)("a connection that its client has left, %s", (_, isTls) => {
  it.each(Object.entries(endings))(
    "is closed on every listener in every phase after %s",
    { timeout: 120_000 },
    async (_, leave) => {
      const port = await startSilentProvider();
      const running = await serveAllDoors({ isTls, filled: { port, fill: (plain) => fill({ running: plain, port }) } });
      // The first requests make the process open files of its own.
      for (const door of doorNames) await statusAt(`${running.address(door)}/nowhere`);
      const left: string[] = [];

      for (const { name, doors, bytes, isAnswered } of phases) {
        for (const door of doors) {
          const address = running.address(door);
          const before = openFiles(running);
          const peers = await Promise.all(Array.from({ length: each }, () => begin({ address, bytes, isAnswered })));
          for (const peer of peers) leave(peer);
          const isClosed = await soon(() => openFiles(running) < before + each);
          if (!isClosed) left.push(`${door}: ${name}: ${openFiles(running) - before} of ${each}`);
          for (const { tcp } of peers) tcp.destroy();
        }
      }
      expect(left).toEqual([]);
      await expect.poll(() => textAt(`${running.address("ops")}/metrics`)).toMatch(/^latchkey_proxy_open 0$/m);
      await expectUnharmed(running, "all phases");
    },
  );
});

/** A provider that takes connections and never answers. */
async function startSilentProvider(): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).resume();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

interface Beginning {
  readonly address: string;
  readonly bytes: Buffer;
  readonly isAnswered: true | undefined;
}

async function begin({ address, bytes, isAnswered }: Beginning): Promise<Peer> {
  const isHttp2 = bytes.subarray(0, 3).equals(opening.subarray(0, 3));
  const peer = await dial({ address, protocols: [isHttp2 ? "h2" : "http/1.1"] });
  const { socket } = peer;
  if (bytes.length > 0) socket.write(bytes);
  if (isAnswered && !socket.destroyed) await Promise.race([once(socket, "data"), once(socket, "close")]);
  else await sleep(30);
  return peer;
}

async function soon(holds: () => boolean): Promise<boolean> {
  for (let i = 0; i < 100 && !holds(); i += 1) await sleep(30);
  return holds();
}
