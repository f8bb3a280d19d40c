import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type Answering, ok, type ProxiedSidecar, startProvider, startProxied } from "../../support/peers/provider.ts";
import { answersIn, openWire } from "../../support/sidecar/door.ts";
import { secretKey } from "../../support/sidecar/harness.ts";

/** Counts the connections handed to the general path from now on; those that create records count too. */
async function countingHandedOver({ metric }: ProxiedSidecar) {
  const count = async () => (await metric("latchkey_proxy_handed_over_total")) ?? 0;
  const before = await count();
  return async () => (await count()) - before;
}

/** The provider's response to a path, whatever the request. */
const answers: Readonly<Record<string, string>> = {
  "/length": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
  "/nothing": "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
  "/same": 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n',
  "/no-reason": "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
  "/high": "HTTP/1.1 200 D\xe9j\xe0\r\nX-High: caf\xe9\r\nContent-Length: 2\r\n\r\n\xff\x00",
  "/chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: y\r\nHost: no\r\n\r\n",
  "/until-end": "HTTP/1.1 200 OK\r\n\r\nhello",
  "/hints": "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  "/redirect": "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
  "/cookies":
    "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nVary: Accept\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n",
  "/refuses": "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\nno",
  "/nonsense": "HTP/1.1 200 OK\r\n\r\n",
  "/two-lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
  "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
  "/closes": "",
};

const scripted: Answering = ({ line }, socket) => {
  const [method = "", path = ""] = line.split(" ");
  const answer = answers[path] ?? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  socket.write(method === "HEAD" ? answer.replace(/\r\n\r\n.*$/s, "\r\n\r\n") : answer, "latin1");
  if (["/until-end", "/cut", "/closes"].includes(path)) socket.end();
};

/** Starts a sidecar for each path, with the same provider. */
async function startBoth(answering: Answering = scripted, env: Readonly<Record<string, string>> = {}) {
  const provider = await startProvider(answering);
  const start = (lane: string) => startProxied(provider.port, { env: { ...env, LATCHKEY_FAST_LANE: lane } });
  const fast = await start("on");
  return { provider, fast, general: await start("off"), handedOver: await countingHandedOver(fast) };
}

const get = (path: string, more = "") => `GET /proxy${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;

describe("the caller's response", () => {
  it("is equal to the byte on both paths, whatever the provider does", async () => {
    const { fast, general, handedOver } = await startBoth();
    const asked = Object.keys(answers).flatMap((path) => [
      get(path, fast.proxyLines),
      get(path, `${fast.proxyLines}Connection: close\r\n`),
      get(path, fast.proxyLines).replace("GET", "HEAD"),
      get(path, `${fast.proxyLines}Content-Length: 5\r\n`).replace("GET", "POST").concat("hello"),
    ]);
    for (const bytes of asked) {
      const [ours, theirs] = await Promise.all([fast.probe(bytes), general.probe(bytes)]);
      // Chunks may be cut elsewhere.
      expect([bytes, ours]).toEqual([bytes, theirs]);
    }
    expect(await handedOver()).toBe(0);
    for (const series of [
      'latchkey_proxy_requests_total{credentials="apiKey",answer="2xx"}',
      'latchkey_proxy_refused_total{reason="provider_malformed"}',
      'latchkey_proxy_refused_total{reason="provider_closed"}',
      'latchkey_proxy_cut_total{by="provider"}',
      'latchkey_proxy_bytes_total{direction="up"}',
      'latchkey_proxy_bytes_total{direction="down"}',
      'latchkey_http_requests_total{door="data",route="/proxy/*",status="200"}',
      'latchkey_http_requests_total{door="data",route="/proxy/*",status="502"}',
      "latchkey_proxy_open",
      'latchkey_http_requests_open{door="data"}',
    ]) {
      const value = await general.metric(series);
      expect([series, value]).not.toEqual([series, undefined]);
      expect([series, await fast.metric(series)]).toEqual([series, value]);
    }
  });

  it("is equal for refusals, and the connection continues", async () => {
    const { fast, general, provider, handedOver } = await startBoth();
    const { proxyLines: lines } = fast;
    const refused = [
      get("/x"),
      get("/x", lines.replace(secretKey, "lk_nobody")),
      get("/x", lines.replace("ada", "nobody")),
      get("/../x", lines),
      get("/x", `${lines}Base-Url-Override: https://evil.test\r\n`),
      get("/x", `${lines}Retries: many\r\n`),
      get("/x", lines).replace("localhost", "evil.test"),
      get("/x", `${lines}Origin: https://evil.test\r\n`),
      get("/x", `${lines}Connection-Id: bob\r\n`),
      get("/x", lines).replace("/proxy", "/nowhere"),
    ];
    for (const bytes of refused) {
      const twice = bytes + get("/length", lines);
      const both = await Promise.all([fast, general].map(({ probe }) => probe(twice, { silentMs: 1_300 })));
      // Only latchkey's date differs.
      const [ours, theirs] = both.map(({ text, ...rest }) => ({ ...rest, text: text.replaceAll(/^Date: .*$/gm, "") }));
      expect([bytes, ours]).toEqual([bytes, theirs]);
      expect(ours?.text).toMatch(/^latchkey-error: /m);
    }
    expect(await handedOver()).toBe(refused.length);
    expect(provider.received()).not.toContain("/x");
  });
});

it("hands over unusual requests with everything behind them, in order", async () => {
  const slow: Answering = (request, socket, n) =>
    void setTimeout(ok, request.line.includes("first") ? 100 : 0, request, socket, n);
  const { fast, handedOver } = await startBoth(slow);
  const lines = fast.proxyLines;
  const chunked = `${get("/odd", `${lines}Transfer-Encoding: chunked\r\n`).replace("GET", "POST")}5\r\nhello\r\n0\r\n\r\n`;
  const text = await fast.raw(get("/first", lines) + get("/second", lines) + chunked + get("/last", lines));
  expect([...text.matchAll(/"line":"[A-Z]+ (\/[a-z]+)/g)].map(([, path]) => path)).toEqual([
    "/first",
    "/second",
    "/odd",
    "/last",
  ]);
  expect(await handedOver()).toBe(1);
});

it("reads heads and bodies in any pieces", async () => {
  const { fast } = await startBoth(ok);
  const bytes = get("/x", `${fast.proxyLines}Content-Length: 10\r\n`).replace("GET", "PUT").concat("0123456789");
  const wire = await openWire(fast.data);
  const start = "PUT /".length;
  wire.send(bytes.slice(0, start));
  for (const byte of bytes.slice(start)) {
    wire.send(byte);
    await new Promise(setImmediate);
  }
  expect(await wire.until((text) => text.endsWith("}"))).toContain('{"line":"PUT /x HTTP/1.1","body":"0123456789"}');
  // All at once, many times.
  const sent = 300;
  wire.send(bytes.repeat(sent));
  await wire.until((text) => answersIn(text) === sent + 1);
  wire.socket.destroy();
});

it("closes a connection of the general path after many requests, with an announcement", async () => {
  const { fast } = await startBoth();
  const wire = await openWire(fast.data);
  const odd = `${get("/length", `${fast.proxyLines}TE: trailers\r\n`)}`;
  for (let asked = 1; asked <= 100; asked += 1) {
    wire.send(asked === 1 ? odd : get("/length", fast.proxyLines));
    await wire.until((text) => answersIn(text) === asked && text.endsWith("hello"));
  }
  const text = await wire.ended;
  expect([answersIn(text), text.match(/^connection: close\r$/gim)?.length]).toEqual([100, 1]);
  expect(text.lastIndexOf("Connection: close")).toBeGreaterThan(text.lastIndexOf("HTTP/1.1 200"));
});

it("keeps a request whose caller pipelines another, and drops it when the caller leaves", async () => {
  const { fast, provider } = await startBoth(() => {});
  const wire = await openWire(fast.data);
  // As many bytes as are read in advance: the rest stays unread.
  wire.send(get("/a", fast.proxyLines) + get("/b", fast.proxyLines).repeat(300));
  await expect.poll(() => provider.connections.length).toBe(1);
  wire.socket.resetAndDestroy();
  await expect.poll(() => fast.metric("latchkey_proxy_open")).toBe(0);
  await expect.poll(() => provider.connections.every(({ socket }) => socket.destroyed)).toBe(true);
});

it("answers 408 to half a head after ten seconds, and closes silent connections, as the general path does", async () => {
  const { fast, general } = await startBoth();
  const silent = async (address: string, bytes: string) => {
    const wire = await openWire(address);
    wire.send(bytes);
    return await wire.ended;
  };
  const halves = ["", get("/x", fast.proxyLines).slice(0, -2)];
  const [ours, theirs] = await Promise.all(
    [fast, general].map(({ data }) => Promise.all(halves.map((bytes) => silent(data, bytes)))),
  );
  expect(ours).toEqual(theirs);
  expect(ours?.[0]).toBe("");
  expect(ours?.[1]).toMatch(/^HTTP\/1\.1 408 /);
});

it("closes idle connections on stop, and announces it on active ones", async () => {
  const { fast, provider } = await startBoth((request, socket, n) => {
    if (!request.line.includes("/late")) ok(request, socket, n);
  });
  const [silent, idle, busy] = await Promise.all([0, 1, 2].map(() => openWire(fast.data)));
  idle?.send(get("/x", fast.proxyLines));
  await idle?.until((text) => text.endsWith("}"));
  busy?.send(get("/late", fast.proxyLines));
  await expect.poll(() => provider.received()).toContain("/late");
  const stopped = fast.stop();
  await Promise.all([silent?.ended, idle?.ended]);
  await sleep(50);
  const late = provider.connections.find(({ received }) => received().includes("/late"));
  late?.socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  expect(await busy?.ended).toMatch(/^Connection: close\r\n\r\nok$/m);
  await stopped;
});

it("announces the last response of each connection, and cuts event streams when their time is over", async () => {
  const held: (() => void)[] = [];
  const slow: Answering = (request, socket, n) => {
    if (request.line.includes("/late")) held.push(() => ok(request, socket, n));
    else if (request.line.includes("/events")) {
      const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
      socket.write(`${head}8\r\ndata: 1\n\r\n`);
    } else ok(request, socket, n);
  };
  const { fast, general, handedOver } = await startBoth(slow, {
    LATCHKEY_GRACE: "30s",
    LATCHKEY_DRAIN_DELAY: "3s",
    LATCHKEY_STREAM_GRACE: "1s",
  });

  async function leave({ data, proxyLines: lines, stop }: ProxiedSidecar) {
    const [idle, late, streaming] = await Promise.all([openWire(data), openWire(data), openWire(data)]);
    idle.send(get("/x", lines));
    expect(await idle.until((text) => text.endsWith("}"))).toMatch(/^Connection: keep-alive\r$/m);
    streaming.send(get("/events", lines));
    await streaming.until((text) => text.includes("data: 1"));
    const asked = held.length;
    late.send(get("/late", lines));
    await expect.poll(() => held.length).toBe(asked + 1);
    const since = performance.now();
    const stopped = stop();
    for (const answer of held) answer();
    expect(await late.ended).toMatch(/^Connection: close\r$/m);
    idle.send(get("/x", lines));
    const text = await idle.ended;
    expect([answersIn(text), text.match(/^Connection: \S+/gm)]).toEqual([
      2,
      ["Connection: keep-alive", "Connection: close"],
    ]);
    // The response is cut off, and not ended in place of the provider.
    expect(await streaming.ended).toMatch(/data: 1\n\r\n$/);
    expect(performance.now() - since).toBeGreaterThan(900);
    return { stopped };
  }

  const { stopped } = await leave(fast);
  // Nothing else was handed over.
  expect(await handedOver()).toBe(0);
  await Promise.all([stopped, leave(general)]);
});

it("recognizes HTTP/2 only at the start of a connection", async () => {
  const { fast, handedOver } = await startBoth();
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const [first, second] = await Promise.all([openWire(fast.data), openWire(fast.data)]);
  first.send(preface);
  // A frame of settings.
  expect((await first.until((text) => text.length >= 9)).charCodeAt(3)).toBe(4);
  first.socket.destroy();
  second.send(get("/length", fast.proxyLines) + preface);
  expect(await second.ended).toMatch(/helloHTTP\/1\.1 400 Bad Request\r\n/);
  expect(await handedOver()).toBe(2);
});

it("takes the general path alone when the fast path is off", async () => {
  const { general } = await startBoth();
  expect(await general.raw(get("/length", general.proxyLines))).toMatch(/hello$/);
  expect(await general.metric("latchkey_proxy_handed_over_total")).toBe(0);
});
