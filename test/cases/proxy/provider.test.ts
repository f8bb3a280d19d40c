import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { type Answering, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { type Called, call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";

/** The provider's response by path: raw bytes, or a function that uses the socket. */
type Script = Readonly<Record<string, string | ((socket: Socket) => void)>>;

const scripted =
  (script: Script): Answering =>
  (request, socket, count) => {
    const said = script[request.line.split(" ")[1] ?? ""];
    if (said === undefined) ok(request, socket, count);
    else if (typeof said === "string") socket.write(said, "latin1");
    else said(socket);
  };

async function withScript(script: Script) {
  const provider = await startProvider(scripted(script));
  const running = await startProxied(provider.port);
  const { data, proxyHeaders: headers } = running;
  const ask = (path: string, method = "GET") => call(`${data}/proxy${path}`, { method, headers });
  return { provider, running, ask };
}

const names = ({ fields }: Called) => fields.map(([name]) => name);

it("P03: keeps fields of the hop to the provider from the caller, and lives through a trailer beside a length", async () => {
  const hop =
    "Connection: X-Hop, close\r\nX-Hop: 1\r\nUpgrade: h2c\r\nKeep-Alive: timeout=977\r\nProxy-Authenticate: B\r\n";
  const { ask, running } = await withScript({
    "/trailer": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTrailer: T\r\n\r\nok",
    "/hop": `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${hop}X-End: 1\r\nLatchkey-Error: overloaded\r\n\r\nok`,
    "/head": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTrailer: T\r\n\r\n",
    "/304": "HTTP/1.1 304 Not Modified\r\nTrailer: T\r\n\r\n",
    "/chunked":
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n2\r\nok\r\n0\r\nT: t\r\nContent-Length: 9\r\n\r\n",
  });
  const trailer = await ask("/trailer");
  expect(trailer).toMatchObject({ status: 200, body: "ok", outcome: "ended" });
  expect(names(trailer)).not.toContain("trailer");
  const hopped = await ask("/hop");
  expect(hopped).toMatchObject({ status: 200, body: "ok" });
  expect(fieldOf(hopped, "x-end")).toBe("1");
  for (const name of ["x-hop", "upgrade", "proxy-authenticate", "latchkey-error"])
    expect(names(hopped)).not.toContain(name);
  expect(fieldOf(hopped, "keep-alive")).not.toBe("timeout=977");
  expect(await ask("/head", "HEAD")).toMatchObject({ status: 200, body: "" });
  expect(await ask("/304")).toMatchObject({ status: 304, body: "" });
  // RFC 9110, 6.5.1: framing fields may not be trailers.
  expect(await ask("/chunked")).toMatchObject({ status: 200, body: "ok", trailers: ["T", "t"] });
  // HTTP/1.0 has no chunks, and so no trailers.
  const old = await running.raw(`GET /proxy/chunked HTTP/1.0\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  expect(old).toMatch(/^HTTP\/1\.[01] 200 /);
  expect(old).not.toMatch(/transfer-encoding|trailer/i);
  expect(old).toMatch(/\r\n\r\nok$/);
});

it("P27: knows the responses without a body, whatever length they declare, and keeps the connection", async () => {
  const { ask, provider } = await withScript({
    "/204": "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "/304": 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: "a"\r\n\r\n',
    "/head": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "/head-chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "/empty": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  });
  expect(await ask("/head", "HEAD")).toMatchObject({ status: 200, body: "" });
  expect(await ask("/head-chunked", "HEAD")).toMatchObject({ status: 200, body: "" });
  const nothing = await ask("/204");
  expect(nothing).toMatchObject({ status: 204, body: "", outcome: "ended" });
  expect(names(nothing)).not.toContain("content-length");
  const unchanged = await ask("/304");
  expect(unchanged).toMatchObject({ status: 304, body: "" });
  expect(fieldOf(unchanged, "etag")).toBe('"a"');
  expect(await ask("/empty")).toMatchObject({ status: 200, body: "" });
  expect((await ask("/next")).body).toContain("GET /next");
  expect(provider.connections).toHaveLength(1);
});

it("P28: accepts 1xx responses up to a limit, and no unrequested change of protocol", async () => {
  const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
  const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const { ask, running } = await withScript({
    "/103": hints.repeat(3) + whole,
    "/100": `HTTP/1.1 100 Continue\r\n\r\n${whole}`,
    "/102": `HTTP/1.1 102 Processing\r\n\r\n${whole}`,
    "/many": hints.repeat(100_000) + whole,
    "/101": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "/bad-hint": `HTTP/1.1 103 Early Hints\r\nLink: <a;b\r\nLink: </b.css>; rel=preload\r\n\r\n${whole}`,
  });
  expect(await ask("/103")).toMatchObject({ status: 200, body: "ok", before: [103, 103, 103] });
  expect(await ask("/100")).toMatchObject({ status: 200, body: "ok", before: [] });
  expect(await ask("/102")).toMatchObject({ status: 200, body: "ok" });
  for (const path of ["/many", "/101"]) {
    const refused = await ask(path);
    expect([refused.status, faultOf(refused)], path).toEqual([502, "provider_malformed"]);
  }
  // A hint that Node refuses to write is no reason to end the process, nor the request.
  expect(await ask("/bad-hint")).toMatchObject({ status: 200, body: "ok" });
  // RFC 9110, 15.2: no interim answers to a caller of HTTP/1.0.
  const old = await running.raw(`GET /proxy/103 HTTP/1.0\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  expect(old).toMatch(/^HTTP\/1\.[01] 200 /);
});

it("P29, P30: refuses an answer that could be read in two ways, and passes on the odd one that could not", async () => {
  const length = "Content-Length: 2";
  const refused: Record<string, string> = {
    "/099": `HTTP/1.1 099 Odd\r\n${length}\r\n\r\nok`,
    "/000": `HTTP/1.1 000 Odd\r\n${length}\r\n\r\nok`,
    "/fold": `HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n${length}\r\n\r\nok`,
    "/nul": `HTTP/1.1 200 OK\r\nX-A: a\0b\r\n${length}\r\n\r\nok`,
    "/bare-cr": `HTTP/1.1 200 OK\r\nX-A: a\rb\r\n${length}\r\n\r\nok`,
    "/bare-lf": `HTTP/1.1 200 OK\nX-A: a\n${length}\n\nok`,
    "/mixed-lf": `HTTP/1.1 200 OK\r\nX-A: a\n${length}\r\n\r\nok`,
    "/17-kib": `HTTP/1.1 200 OK\r\nX-A: ${"a".repeat(17 * 1024)}\r\n${length}\r\n\r\nok`,
    "/both": `HTTP/1.1 200 OK\r\n${length}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
    "/two-lengths": `HTTP/1.1 200 OK\r\n${length}\r\n${length}\r\n\r\nok`,
    "/list-of-lengths": `HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok`,
    "/signed-length": `HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok`,
    "/hex-length": `HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok`,
    "/huge-length": `HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok`,
    "/gzip-chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "/two-codings": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "/old-chunked": "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "/blank-before-colon": `HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok`,
    "/no-colon": `HTTP/1.1 200 OK\r\nnonsense\r\n${length}\r\n\r\nok`,
    "/http2": `HTTP/2.0 200 OK\r\n${length}\r\n\r\nok`,
    "/http09": "hello\r\n\r\n",
    "/ssh": "SSH-2.0-OpenSSH_9.2p1\r\n",
  };
  const passed: Record<string, readonly [string, number, string]> = {
    "/999": [`HTTP/1.1 999 Odd\r\n${length}\r\n\r\nok`, 999, "Odd"],
    "/blank-reason": [`HTTP/1.1 200 \r\n${length}\r\n\r\nok`, 200, ""],
    "/no-reason": [`HTTP/1.1 200\r\n${length}\r\n\r\nok`, 200, ""],
    "/odd-reason": [`HTTP/1.1 200 d\xe9j\xe0 vu\r\n${length}\r\n\r\nok`, 200, "d\xe9j\xe0 vu"],
    "/cookies": [`HTTP/1.1 200 OK\r\n${"Set-Cookie: a=b\r\n".repeat(500)}${length}\r\n\r\nok`, 200, "OK"],
    "/old": [`HTTP/1.0 200 OK\r\n${length}\r\n\r\nok`, 200, "OK"],
  };
  const answers = Object.entries(passed).map(([path, [answer]]): [string, string] => [path, answer]);
  const { ask } = await withScript({ ...refused, ...Object.fromEntries(answers) });
  await Promise.all(
    Object.keys(refused).map(async (path) => {
      const answer = await ask(path);
      expect([answer.status, faultOf(answer)], path).toEqual([502, "provider_malformed"]);
    }),
  );
  for (const [path, [, status, reason]] of Object.entries(passed)) {
    const answer = await ask(path);
    expect(answer, path).toMatchObject({ status, reason, body: "ok", outcome: "ended" });
    expect(names(answer)).not.toContain("set-cookie");
  }
});

it("reads an answer the same wherever it was cut on its way, in both framings", async () => {
  const body = "hello \r\n\r\n world";
  const fields = "X-A: b\r\nTrailer: T\r\n";
  const whole = {
    length: `HTTP/1.1 200 OK\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`,
    chunked: `HTTP/1.1 200 OK\r\n${fields}Transfer-Encoding: chunked\r\n\r\n3;e="x"\r\n${body.slice(0, 3)}\r\n00D\r\n${body.slice(3)}\r\n0\r\nT: t\r\n\r\n`,
    hint: `HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  };
  const cut: Answering = async ({ line }, socket) => {
    const [, framing, at] = line.split(/[/ ]+/);
    const text = whole[framing as keyof typeof whole];
    socket.setNoDelay(true);
    if (at === "all") {
      for (const byte of text) {
        socket.write(byte, "latin1");
        await sleep(1);
      }
      return;
    }
    socket.write(text.slice(0, Number(at)), "latin1");
    await sleep(10);
    socket.write(text.slice(Number(at)), "latin1");
  };
  const provider = await startProvider(cut);
  const { data, proxyHeaders: headers } = await startProxied(provider.port);
  const places = Object.entries(whole).flatMap(([framing, { length }]) => [
    ...Array.from({ length: length - 1 }, (_, i) => `${framing}/${i + 1}`),
    `${framing}/all`,
  ]);
  const work = places.values();
  const worker = async () => {
    for (const place of work) {
      const answer = await call(`${data}/proxy/${place}`, { headers });
      expect(answer, place).toMatchObject({ status: 200, body, outcome: "ended" });
      expect(fieldOf(answer, "x-a"), place).toBe("b");
      if (place.startsWith("chunked")) expect(answer.trailers, place).toEqual(["T", "t"]);
    }
  };
  await Promise.all(Array.from({ length: 32 }, worker));
});

const rst = (socket: Socket) => void socket.resetAndDestroy();
/** How a provider breaks off: after these bytes, in this way. */
const breaks: Record<string, readonly [string, (socket: Socket) => void]> = {
  "/length-fin": ["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", (socket) => socket.end()],
  "/length-rst": ["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", rst],
  "/chunk-fin": ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello", (socket) => socket.end()],
  "/chunk-rst": ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello", rst],
  "/between-chunks": ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", (socket) => socket.end()],
  "/in-trailers": [
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: ",
    (socket) => socket.end(),
  ],
  "/bad-chunk": ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n", () => {}],
  "/close-rst": ["HTTP/1.1 200 OK\r\n\r\nhello", rst],
};

it("P04: an answer that the provider broke off ends broken off at the caller too, and at once", async () => {
  const script = Object.fromEntries(
    Object.entries(breaks).map(([path, [bytes, end]]) => [
      path,
      (socket: Socket) => socket.write(bytes, () => setTimeout(end, 30, socket)),
    ]),
  );
  const { ask, running } = await withScript(script);
  for (const path of Object.keys(breaks)) {
    const elapsed = startStopwatch();
    // If it broke off before the first byte was forwarded, the caller sees nothing.
    const answer = await ask(path).catch(() => ({ outcome: "cut", body: "" }));
    expect(answer.outcome, path).toBe("cut");
    expect("hello".startsWith(answer.body), path).toBe(true);
    expect(elapsed.ms, path).toBeLessThan(1_000);
  }
  expect(await running.metric('latchkey_proxy_cut_total{by="provider"}')).toBe(Object.keys(breaks).length);
  // For an HTTP/1.0 caller the end of the connection ends the response, unless it is a reset.
  for (const path of ["/chunk-fin", "/length-fin"]) {
    const wire = await openWire(running.data);
    const errors: string[] = [];
    wire.socket.on("error", (error: NodeJS.ErrnoException) => errors.push(error.code ?? ""));
    wire.send(`GET /proxy${path} HTTP/1.0\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
    const text = await wire.ended;
    const announced = /content-length: 10/i.test(text);
    expect(errors.includes("ECONNRESET") || announced || text === "", path).toBe(true);
  }
});

it("P04: reports a provider that ends without a response; a body framed by its end is complete", async () => {
  const { ask } = await withScript({
    "/nothing": (socket) => socket.end(),
    "/reset": rst,
    "/half-a-head": (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Le"),
    "/until-the-end": (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it"),
    "/until-the-end-1.0": (socket) => socket.end("HTTP/1.0 200 OK\r\n\r\nall of it"),
  });
  for (const path of ["/nothing", "/reset", "/half-a-head"]) {
    const answer = await ask(path);
    expect([answer.status, faultOf(answer)], path).toEqual([502, "provider_closed"]);
  }
  for (const path of ["/until-the-end", "/until-the-end-1.0"]) {
    expect(await ask(path), path).toMatchObject({ status: 200, body: "all of it", outcome: "ended" });
  }
});

it("P31: discards bytes after or without a response, and the next caller gets its own", async () => {
  const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
  const { ask, provider } = await withScript({
    "/length": `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${forged}`,
    "/chunked": `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${forged}`,
    "/304": `HTTP/1.1 304 Not Modified\r\n\r\n${forged}`,
    "/head": `HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n${forged}`,
    "/later": (socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      setTimeout(() => socket.write(forged), 20);
    },
  });
  await ask("/first");
  for (const [path, method] of [
    ["/length", "GET"],
    ["/chunked", "GET"],
    ["/304", "GET"],
    ["/head", "HEAD"],
    ["/later", "GET"],
  ] as const) {
    const before = provider.connections.length;
    expect((await ask(path, method)).body, path).toBe(method === "HEAD" || path === "/304" ? "" : "ok");
    // Bytes that come while the next request is sent could be its response: nobody can tell them apart.
    const { socket } = provider.connections[before - 1] ?? {};
    await expect.poll(() => socket?.readyState).not.toBe("open");
    expect((await ask("/next")).body, path).toContain("GET /next");
    expect(provider.connections.length, path).toBe(before + 1);
  }
});

it("P39: changes neither the caller's accept fields nor the response", async () => {
  const packed = { gzip: gzipSync("hello ".repeat(1_000)), br: brotliCompressSync("hello ".repeat(1_000)) };
  const { ask, provider, running } = await withScript({
    "/gzip": `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: "a"\r\nContent-Length: ${packed.gzip.length}\r\n\r\n${packed.gzip.toString("latin1")}`,
    "/br": `HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n${packed.br.length.toString(16)}\r\n${packed.br.toString("latin1")}\r\n0\r\n\r\n`,
    "/range": "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/4\r\nContent-Length: 2\r\n\r\nel",
  });
  const asked = {
    range: "bytes=1-2",
    "if-none-match": '"a", W/"b"',
    "accept-encoding": "gzip, br;q=0.5",
    "content-encoding": "gzip",
  };
  const headers = { ...running.proxyHeaders, ...asked };
  const up = await call(`${running.data}/proxy/up`, { method: "POST", headers, body: packed.gzip });
  expect(up.status).toBe(200);
  const [request] = provider.connections[0]?.requests() ?? [];
  for (const field of Object.entries(asked)) expect(request?.fields).toContainEqual(field);
  expect(request?.body).toBe(packed.gzip.toString("latin1"));
  for (const name of ["gzip", "br"] as const) {
    const answer = await ask(`/${name}`);
    expect([answer.body === packed[name].toString("latin1"), fieldOf(answer, "content-encoding")]).toEqual([
      true,
      name,
    ]);
  }
  const part = await ask("/range");
  expect([part.status, part.body, fieldOf(part, "content-range")]).toEqual([206, "el", "bytes 1-2/4"]);
});
