import { once } from "node:events";
import http2 from "node:http2";
import { connect, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { expectUnharmed, openFiles, serveAllDoors, statusAt, textAt } from "../../support/sidecar/door-process.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch, type Running } from "../../support/sidecar/process.ts";
import { opening, requestBlock } from "../../support/wire/hostile-http2.ts";
import { flags, frame } from "../control-plane/frames.ts";

const few = { limits: { connections: { data: 6, public: 12, control: 5, ops: 20 } } };

async function open(address: string, localAddress = "127.0.0.1"): Promise<Socket> {
  const { hostname, port } = new URL(address);
  const socket = connect({ host: hostname, port: Number(port), localAddress });
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

const asked = frame("headers", {
  stream: 1,
  flags: flags.endHeaders | flags.endStream,
  payload: requestBlock({ method: "GET", path: "/nowhere" }),
});

/** Whether an HTTP/2 request is answered on a connection that may be idle for minutes. */
async function isOpen(socket: Socket): Promise<boolean> {
  socket.write(Buffer.concat([opening, asked]));
  const isClosed = once(socket, "close").then(() => true);
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  // A refusal has 26 bytes, the head of an answer more than 100.
  while (bytes < 100) {
    if ((await Promise.race([once(socket, "data"), isClosed])) === true) return false;
  }
  return true;
}

/** Opens connections one by one until one is refused, and returns those that were served. */
async function fillDoor(address: string, localAddress?: string): Promise<Socket[]> {
  const served: Socket[] = [];
  for (;;) {
    const socket = await open(address, localAddress);
    if (!(await isOpen(socket))) {
      socket.destroy();
      return served;
    }
    served.push(socket);
  }
}

const refusedAt = async (running: Running, door: string, limit: string) => {
  const text = await textAt(`${running.address("ops")}/metrics`);
  const [, count = "0"] =
    new RegExp(`^latchkey_connections_refused_total\\{door="${door}",limit="${limit}"\\} (\\d+)`, "m").exec(text) ?? [];
  return Number(count);
};

it.each([
  ["data", 6],
  ["control", 5],
] as const)("refuses a connection above the limit of the %s listener, and says why", async (door, max) => {
  const running = await serveAllDoors({ config: few });
  const address = running.address(door);
  const served = await fillDoor(address);
  expect(served).toHaveLength(max);

  const socket = await open(address);
  socket.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  expect(text).toMatch(/^HTTP\/1\.1 503 /);
  expect(text).toMatch(/\r\nlatchkey-error: overloaded\r\n[\s\S]*retry-after: 1\r\n/);

  const session = http2.connect(address);
  const [error] = (await once(session, "error")) as [Error];
  expect(error.message).toMatch(/code 11/);
  const stream = await open(address);
  stream.write(Buffer.concat([opening, frame("ping", { payload: Buffer.alloc(8) })]));
  await once(stream.resume(), "close");

  // A silent connection is closed too; another listener still serves.
  await once((await open(address)).resume(), "close");
  expect(await statusAt(`${running.address("public")}/nowhere`)).toBe(404);
  expect(await refusedAt(running, door, "door")).toBe(5);
  const warned = running.stdout().match(/"msg":"connections refused"/g);
  expect(warned).toHaveLength(1);

  served[0]?.destroy();
  await expect.poll(() => statusAt(`${address}/nowhere`)).toBe(404);
  await expectUnharmed(running, "a full door");
});

it("reserves room on the public listener for other addresses", async () => {
  const running = await serveAllDoors({ config: few });
  const address = running.address("public");
  const counts: number[] = [];
  for (const last of [1, 2, 3]) counts.push((await fillDoor(address, `127.0.0.${last}`)).length);
  expect(counts).toEqual([6, 3, 2]);
  expect(await isOpen(await open(address, "127.0.0.9"))).toBe(true);
  expect(await refusedAt(running, "public", "address")).toBe(3);
});

it.skipIf(lacks("openssl"))("refuses before the handshake under TLS", async () => {
  const running = await serveAllDoors({ config: few, isTls: true });
  const address = running.address("data");
  for (let i = 0; i < 6; i += 1) await open(address);
  await expect.poll(() => statusAt(`${address}/health`)).toBe("ECONNRESET");
  expect(await statusAt(`${running.address("ops")}/readyz`)).toBe(200);
});

it.skipIf(lacks("prlimit"))("answers probes while strangers take all connections that they can", async () => {
  const running = launch(["serve"], {
    folder: await temporaryFolder(),
    env: { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0" },
    limits: ["--nofile=400:400"],
  });
  await running.says('"phase":"ready"');
  const sockets: Socket[] = [];
  for (const door of ["data", "public", "control"] as const) {
    const { hostname, port } = new URL(running.address(door));
    for (let i = 0; i < 500; i += 1) {
      const socket = connect({ host: hostname, port: Number(port), localAddress: `127.0.0.${1 + (i % 50)}` });
      sockets.push(
        socket
          .on("error", () => {})
          .on("connect", () => socket.write(opening))
          .resume(),
      );
    }
  }
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (let i = 0; i < 10; i += 1) expect(await statusAt(`${running.address("ops")}/readyz`)).toBe(200);
  expect(openFiles(running)).toBeLessThan(330);
  await expectUnharmed(running, "a flood of connections");
});
