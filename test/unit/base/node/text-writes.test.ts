import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { canWriteTexts, hasUnsent, writeText } from "../../../../src/base/node/text-writes.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";

beforeAll(async () => {
  // Otherwise these tests would only test the stream's own writes.
  expect(await canWriteTexts()).toBe(true);
});

/** Both ends of a connection. */
async function pair(): Promise<{ readonly near: Socket; readonly far: Socket }> {
  const server = createServer({ allowHalfOpen: true });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const far = connect({ port: typeof address === "object" ? (address?.port ?? 0) : 0, host: "127.0.0.1" });
  const [near] = (await once(server, "connection")) as [Socket];
  server.close();
  return { near, far };
}

it("writes a text at once, and leaves nothing of it in a stream", async () => {
  const { near, far } = await pair();
  const heard = once(far, "data");
  const { write } = near;
  near.write = () => {
    throw new Error("the stream was asked");
  };
  writeText(near, "caf\u00e9");
  near.write = write;
  expect([near.bytesWritten, hasUnsent(near)]).toEqual([4, false]);
  expect((await heard)[0]).toEqual(Buffer.from("caf\u00e9", "latin1"));
  near.destroy();
  far.destroy();
});

it.each([1, 2, 3])("keeps the order of texts, buffers and queued data for a slow reader (%i)", async (seed) => {
  const random = seeded(seed);
  const { near, far } = await pair();
  const wanted: Buffer[] = [];
  const heard: Buffer[] = [];
  /** Writes until the stream buffers the last write. */
  const fill = () => {
    while (!hasUnsent(near)) {
      const text = String.fromCharCode(65 + (wanted.length % 26)).repeat(16_000);
      wanted.push(Buffer.from(text));
      writeText(near, text);
    }
    expect(near.writableLength).toBe(0);
  };
  far.on("data", (bytes: Buffer) => heard.push(bytes)).pause();
  for (let i = 0; i < 3_000; i += 1) {
    const text = String.fromCharCode(97 + (i % 26)).repeat(1 + below(random, i % 7 === 0 ? 40_000 : 8_000));
    wanted.push(Buffer.from(text));
    const way = below(random, 10);
    if (way === 0) {
      near.cork();
      process.nextTick(() => near.uncork());
    }
    if (way === 1) near.write(Buffer.from(text));
    else if (way === 2) near.write(text, "latin1");
    else writeText(near, text);
    if (i % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    if (i % 500 !== 250) continue;
    // The reader catches up now and then, so that later texts find an empty buffer.
    far.resume();
    while (hasUnsent(near)) await new Promise((resolve) => setTimeout(resolve, 1));
    far.pause();
    if (i % 1_000 === 250) fill();
  }
  far.resume();
  near.end();
  await finished(far, { writable: false });
  expect(Buffer.concat(heard).equals(Buffer.concat(wanted))).toBe(true);
  expect(hasUnsent(near)).toBe(false);
  far.destroy();
});

it("reports a closed connection like its stream", async () => {
  const { near, far } = await pair();
  const failed = once(near, "error");
  far.resetAndDestroy();
  near.resume();
  const beginning = Date.now();
  while (!near.destroyed && Date.now() - beginning < 60_000) {
    writeText(near, "x".repeat(1_000));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect((await failed)[0]).toMatchObject({ code: expect.stringMatching(/^(?:EPIPE|ECONNRESET)$/) });
  // Later text goes nowhere.
  writeText(near, "x");
});

it("drops queued data of a reader that has left", async () => {
  const { near, far } = await pair();
  near.on("error", () => {});
  far.pause();
  while (!hasUnsent(near)) writeText(near, "x".repeat(16_000));
  expect(near.writableLength).toBe(0);
  // Later text is queued in the stream, which counts it.
  writeText(near, "12345");
  expect(near.writableLength).toBe(5);
  near.destroy();
  await once(near, "close");
  expect(hasUnsent(near)).toBe(false);
  far.destroy();
});

it("joins held data to one write", async () => {
  const { near, far } = await pair();
  near.cork();
  writeText(near, "12345");
  expect(near.writableLength).toBe(5);
  near.uncork();
  expect(String((await once(far, "data"))[0])).toBe("12345");
  near.destroy();
  far.destroy();
});

it("reuses no write request before its text was written, though nothing is queued any more", async () => {
  // The reader is as fast as possible: now and then it makes room between the two tries of a write.
  const path = join(await temporaryFolder(), "socket");
  const server = createServer();
  await once(server.listen(path), "listening");
  const reader = spawn(process.execPath, ["--eval", reading, path], { stdio: "inherit" });
  onTestFinished(() => {
    reader.kill();
    server.close();
  });
  const sockets: Socket[] = [];
  server.on("connection", (socket) => sockets.push(socket.on("error", () => {})));
  await expect.poll(() => sockets.length).toBe(8);
  const text = "y".repeat(16 * 1024);
  let left = 0;
  for (const until = performance.now() + 3_000; performance.now() < until; ) {
    // Node ends the process over one that is used twice.
    for (let i = 0; i < 200; i += 1) {
      for (const socket of sockets) {
        if (hasUnsent(socket)) continue;
        writeText(socket, text);
        left += 1;
      }
    }
    await new Promise(setImmediate);
  }
  expect(left).toBeGreaterThan(1_000);
  for (const socket of sockets) socket.destroy();
});

const reading = `const buffer = Buffer.alloc(65536);
for (let i = 0; i < 8; i += 1) {
  require("node:net").connect({ path: process.argv[1], onread: { buffer, callback: () => true } })
    .on("error", () => {}).on("close", () => process.exit());
}`;
