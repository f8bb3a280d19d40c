import { createHash } from "node:crypto";
import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import {
  type Answering,
  ok,
  type RecordingProvider,
  startProvider,
  startProxied,
} from "../../support/peers/provider.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { call } from "../../support/wire/proxy-call.ts";

const mib = 1024 * 1024;

/** Bytes that are nowhere the same twice: a buffer that was filled again too early shows. */
function pattern(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE(Math.imul(at, 2_654_435_761) >>> 0, at);
  return bytes;
}

const piece = pattern(4 * mib);
const hashOf = (bytes: number, salt: string) => {
  const hash = createHash("sha1").update(salt);
  for (let left = bytes; left > 0; left -= piece.length)
    hash.update(left < piece.length ? piece.subarray(0, left) : piece);
  return hash.digest("hex");
};

/** The bytes sent of a large response, by path. */
const sentOff = new Map<string, number>();

/** `/big/<bytes>/<salt>`: the salt, and then the pattern repeated, as fast as the reader takes it. */
const big =
  (framing: "length" | "chunked"): Answering =>
  ({ line }, socket) => {
    const path = line.split(" ")[1] ?? "";
    const [, , size, salt = ""] = path.split("/");
    const total = Number(size);
    const chunk = (bytes: Buffer) =>
      framing === "length"
        ? bytes
        : Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
    const framed = framing === "length" ? `Content-Length: ${total + salt.length}` : "Transfer-Encoding: chunked";
    socket.write(`HTTP/1.1 200 OK\r\n${framed}\r\n\r\n`);
    socket.write(chunk(Buffer.from(salt)));
    let left = total;
    const pump = () => {
      while (left > 0 && !socket.destroyed) {
        const part = left < piece.length ? piece.subarray(0, left) : piece;
        left -= part.length;
        sentOff.set(path, total - left);
        if (!socket.write(chunk(part))) {
          socket.once("drain", pump);
          return;
        }
      }
      if (left === 0 && framing === "chunked") socket.write("0\r\n\r\n");
    };
    pump();
  };

function download(url: string, headers: Readonly<Record<string, string>>): Promise<{ hash: string; bytes: number }> {
  return new Promise((resolve, reject) => {
    const request = http.get(url, { headers, agent: false }, (response) => {
      const hash = createHash("sha1");
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        hash.update(chunk);
      });
      response.on("error", reject);
      response.on("end", () => resolve({ hash: hash.digest("hex"), bytes }));
    });
    request.on("error", reject);
  });
}

const closedWithin = async (socket: Socket | undefined, ms: number) => {
  const elapsed = startStopwatch();
  while (socket !== undefined && !socket.destroyed && elapsed.ms < ms) await sleep(10);
  return socket?.destroyed === true;
};

const lastSocket = ({ connections }: RecordingProvider) => connections.at(-1)?.socket;

for (const framing of ["length", "chunked"] as const) {
  it(`P24: large answers in ${framing} framing arrive whole, several at once, with others left in the middle`, async () => {
    const provider = await startProvider(big(framing));
    const { data, proxyHeaders: headers } = await startProxied(provider.port);
    const size = 24 * mib + 17;
    const salts = ["ada", "bob", "carl", "dora"];
    const leaving = Array.from({ length: 40 }, async (_, i) => {
      const controller = new AbortController();
      const answer = await fetch(`${data}/proxy/big/${64 * mib}/leaving-${i}`, { headers, signal: controller.signal });
      const reader = answer.body?.getReader();
      for (let read = 0; read < 3 * mib; ) read += (await reader?.read())?.value?.length ?? 3 * mib;
      controller.abort();
      await reader?.closed.catch(() => {});
    });
    const whole = salts.map((salt) => download(`${data}/proxy/big/${size}/${salt}`, headers));
    const answers = await Promise.all(whole);
    await Promise.all(leaving);
    for (const [i, salt] of salts.entries()) {
      expect(answers[i], salt).toEqual({ hash: hashOf(size, salt), bytes: size + salt.length });
    }
    // Buffers of callers that left are reused for the next ones.
    expect(await download(`${data}/proxy/big/${size}/last`, headers)).toMatchObject({ hash: hashOf(size, "last") });
  });
}

it("P24: a slow reader slows the provider down, and memory stays where it is", async () => {
  const provider = await startProvider(big("length"));
  const running = await startProxied(provider.port);
  const path = `/big/${256 * mib}/slow`;
  const wire = await openWire(running.data);
  wire.socket.removeAllListeners("data");
  wire.socket.pause();
  const before = process.memoryUsage().rss;
  wire.send(`GET /proxy${path} HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  let peak = 0;
  for (let i = 0; i < 20; i += 1) {
    wire.socket.read(64 * 1024);
    await sleep(50);
    peak = Math.max(peak, process.memoryUsage().rss - before);
  }
  // The provider's own buffers of the kernel and of this process are among it.
  expect(sentOff.get(path)).toBeLessThan(40 * mib);
  expect(peak).toBeLessThan(80 * mib);
  // A reader that resumes gets the rest.
  let taken = 0;
  wire.socket.on("data", (chunk: string) => {
    taken += chunk.length;
  });
  wire.socket.resume();
  while (taken < 64 * mib) await sleep(20);
  wire.socket.destroy();
  expect(await closedWithin(lastSocket(provider), 1_000)).toBe(true);
});

it("P24: a provider that does not read slows the upload down, without growing memory", async () => {
  // Reads nothing at all after the head.
  const provider = await startProvider();
  const { data, proxyHeaders, metric } = await startProxied(provider.port);
  await call(`${data}/proxy/first`, { headers: proxyHeaders });
  lastSocket(provider)?.pause();
  const size = 256 * mib;
  const before = process.memoryUsage().rss;
  let sent = 0;
  const request = http.request(`${data}/proxy/up`, {
    method: "POST",
    headers: { ...proxyHeaders, "content-length": String(size) },
    agent: false,
  });
  request.on("error", () => {});
  const pump = () => {
    while (sent < size) {
      sent += piece.length;
      if (!request.write(piece)) return void request.once("drain", pump);
    }
  };
  pump();
  await sleep(800);
  expect(sent).toBeLessThan(40 * mib);
  expect(process.memoryUsage().rss - before).toBeLessThan(80 * mib);
  request.destroy();
  lastSocket(provider)?.resume();
  expect(await closedWithin(lastSocket(provider), 10_000)).toBe(true);
  expect(await metric("latchkey_proxy_open")).toBe(0);
});

it("P24: an upload arrives whole at a provider that takes it in fits and starts", async () => {
  const server = http.createServer((request, response) => {
    const hash = createHash("sha1");
    request.on("data", (chunk: Buffer) => {
      hash.update(chunk);
      request.pause();
      setTimeout(() => request.resume(), chunk.length % 3);
    });
    request.on("end", () => response.end(hash.digest("hex")));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close().closeAllConnections());
  const { data, proxyHeaders } = await startProxied((server.address() as AddressInfo).port);
  const size = 16 * mib;
  const parts = Array.from({ length: size / piece.length }, () => piece);
  for (const length of [{ "content-length": String(size) }, {}]) {
    const request = http.request(`${data}/proxy/up`, { method: "PUT", headers: { ...proxyHeaders, ...length } });
    const answered = once(request, "response") as Promise<[IncomingMessage]>;
    for (const part of parts) request.write(part);
    request.end();
    const [answer] = await answered;
    expect(Buffer.concat(await answer.toArray()).toString()).toBe(hashOf(size, ""));
  }
});

it("P32: a caller who leaves in mid-download, in mid-upload or before any response closes the provider's connection", async () => {
  const silent: Answering = (request, socket, count) => {
    if (request.line.includes("/big/")) big("length")(request, socket, count);
    else if (request.line.includes("/ok")) ok(request, socket, count);
  };
  const provider = await startProvider(silent);
  const running = await startProxied(provider.port);
  const begin = (method: string, path: string, more = "") =>
    `${method} /proxy${path} HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}${more}\r\n`;
  const leaving: Record<string, string> = {
    "mid-download": begin("GET", `/big/${64 * mib}/x`),
    "mid-upload with a length": `${begin("POST", "/up", "Content-Length: 1000000\r\n")}some of it`,
    "mid-upload in chunks": `${begin("POST", "/up", "Transfer-Encoding: chunked\r\n")}5\r\nhello\r\n`,
    "before any answer": begin("GET", "/silent"),
    "with an answer behind another one": begin("GET", "/silent") + begin("GET", `/big/${64 * mib}/y`),
    "with retries asked for": begin("GET", "/silent", "Retries: 3\r\n"),
  };
  for (const [when, bytes] of Object.entries(leaving)) {
    const before = provider.connections.length;
    const wire = await openWire(running.data);
    wire.send(bytes);
    while (provider.connections.length === before) await sleep(5);
    await sleep(50);
    wire.socket.destroy();
    for (const { socket } of provider.connections.slice(before)) {
      expect(await closedWithin(socket, 1_000), when).toBe(true);
    }
    // Later requests are not affected.
    expect((await call(`${running.data}/proxy/ok`, { headers: running.proxyHeaders })).status, when).toBe(200);
    lastSocket(provider)?.destroy();
    await sleep(20);
  }
  expect(await running.metric("latchkey_proxy_open")).toBe(0);
  expect(running.logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});

it("P32: a caller who leaves during the lookup of its connection leaves nothing behind", async () => {
  const provider = await startProvider(() => {});
  const running = await startProxied(provider.port);
  const ids = Array.from({ length: 40 }, (_, i) => `c${i}`);
  for (const connection_id of ids) {
    const credentials = { type: "API_KEY", apiKey: "their-key" };
    await running.rest("POST", "/connections", { body: { provider_config_key: "here", connection_id, credentials } });
  }
  await Promise.all(
    ids.map(async (id, i) => {
      const wire = await openWire(running.data);
      wire.send(
        `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines.replace("connection-id: ada", `connection-id: ${id}`)}\r\n`,
      );
      // At once, and a little later.
      setTimeout(() => wire.socket.resetAndDestroy(), i % 4);
    }),
  );
  await sleep(300);
  for (const { socket } of provider.connections) expect(await closedWithin(socket, 1_000)).toBe(true);
  expect(await running.metric("latchkey_proxy_open")).toBe(0);
});

it("P40: hands server-sent events on as they come, and ends the stream when the grace is over", async () => {
  const provider = await startProvider((_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    let n = 0;
    const ticking = setInterval(() => {
      n += 1;
      const event = `data: ${n} ${performance.now()}\n\n`;
      if (socket.writable) socket.write(`${event.length.toString(16)}\r\n${event}\r\n`);
    }, 50);
    socket.on("close", () => clearInterval(ticking));
  });
  const running = await startProxied(provider.port, { env: { LATCHKEY_GRACE: "1s" } });
  const elapsed = startStopwatch();
  const wire = await openWire(running.data);
  wire.send(`GET /proxy/events HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  await wire.until((text) => text.includes("\r\n\r\n"));
  // The head does not wait for the first event.
  expect(elapsed.ms).toBeLessThan(500);
  const telling = startStopwatch();
  const delays: number[] = [];
  wire.socket.on("data", (chunk: string) => {
    for (const [, at] of chunk.matchAll(/data: \d+ ([\d.]+)/g)) delays.push(performance.now() - Number(at));
  });
  await wire.until((text) => text.includes("data: 8 "));
  expect(Math.max(...delays) - telling.lateMs).toBeLessThan(100);
  const stopping = startStopwatch();
  const stopped = running.stop();
  const text = await wire.ended;
  await stopped;
  expect(stopping.ms).toBeLessThan(2_500);
  expect(stopping.passedMs).toBeGreaterThan(900);
  // Cut off, and not brought to an end that the provider did not give it.
  expect(text.endsWith("0\r\n\r\n")).toBe(false);
  expect(text.split("data: ").length).toBeGreaterThan(20);
  expect(await closedWithin(lastSocket(provider), 1_000)).toBe(true);
});

it("forwards a response head before any content", async () => {
  const begun: Record<string, string> = {
    "/head": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "/size": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
    "/half-a-size": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00",
    "/until-the-end": "HTTP/1.1 200 OK\r\n\r\n",
  };
  const provider = await startProvider(({ line }, socket) => void socket.write(begun[line.split(" ")[1] ?? ""] ?? ""));
  const running = await startProxied(provider.port);
  for (const path of Object.keys(begun)) {
    const wire = await openWire(running.data);
    wire.send(`GET /proxy${path} HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
    const head = wire.until((text) => text.includes("\r\n\r\n"));
    expect(await Promise.race([head, sleep(2_000, "nothing")]), path).toMatch(/^HTTP\/1\.1 200 /);
    wire.socket.destroy();
  }
});

it("P40: a response in progress at a stop is completed", async () => {
  const provider = await startProvider((_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    setTimeout(() => socket.write("world"), 300);
  });
  const running = await startProxied(provider.port);
  const answer = call(`${running.data}/proxy/x`, { headers: running.proxyHeaders, agent: false });
  await sleep(100);
  await running.stop();
  expect(await answer).toMatchObject({ status: 200, body: "helloworld", outcome: "ended" });
});

it("an early response reaches a caller that is still uploading, who may stop", async () => {
  const provider = await startProvider(() => {});
  const running = await startProxied(provider.port);
  const wire = await openWire(running.data);
  wire.send(
    `POST /proxy/up HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}Content-Length: 1000000\r\n\r\nsome of it`,
  );
  while (!provider.received().endsWith("some of it")) await sleep(5);
  const socket = lastSocket(provider);
  socket?.write("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  expect(await wire.until((text) => text.endsWith("no"))).toMatch(/^HTTP\/1\.1 413 /);
  // That connection has half a request on it: it must not be reused.
  expect(await closedWithin(socket, 1_000)).toBe(true);
  const elapsed = startStopwatch();
  await wire.ended;
  expect(elapsed.ms).toBeLessThan(2_000);
});
