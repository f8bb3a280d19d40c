import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { type Called, call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

/** A sidecar with this proxy configuration; the file may change. */
async function configured(proxy: string, options: Options = {}) {
  const provider = await startProvider(ok);
  const files: Record<string, string> = { "/latchkey.yaml": `proxy: ${proxy}` };
  const env = { LATCHKEY_CONFIG: "/latchkey.yaml" };
  const running = await startProxied(provider.port, { ...options, files, env });
  for (const integration of ["there"]) {
    await running.rest("POST", "/integrations", { body: { unique_key: integration, provider: "here" } });
  }
  for (const [provider_config_key, connection_id] of [
    ["here", "bob"],
    ["there", "ada"],
  ]) {
    const credentials = { type: "API_KEY", apiKey: "the-key-of-another" };
    const made = await running.rest("POST", "/connections", {
      body: { provider_config_key, connection_id, credentials },
    });
    expect(made.status).toBe(201);
  }
  const ask = (connection = "here/ada", headers: Readonly<Record<string, string>> = {}) => {
    const [integration = "", id = ""] = connection.split("/");
    return call(`${running.data}/proxy/x`, {
      headers: { ...running.proxyHeaders, "provider-config-key": integration, "connection-id": id, ...headers },
      agent: false,
    });
  };
  /** Applies a change like the file's watcher. */
  const change = async (text: string) => {
    files["/latchkey.yaml"] = text;
    await running.sidecar.reload(() =>
      parseChangeable({
        path: "/latchkey.yaml",
        env: {},
        files: { read: (path) => ({ text: files[path] ?? "", mode: 0 }) },
      }),
    );
  };
  return { provider, running, ask, change };
}

const outcome = (answer: Called) => faultOf(answer) ?? answer.status;

/** Sends requests one after another. */
async function times(count: number, ask: () => Promise<Called>) {
  const all: (string | number)[] = [];
  for (let i = 0; i < count; i += 1) all.push(outcome(await ask()));
  return all;
}

const limited = "too_many_requests";

describe("rates", () => {
  it("limits a connection's rate, sends Retry-After, and does not affect others", async () => {
    const { running, ask, provider } = await configured(
      "{ rates: { per_connection: { requests: 2, per: 1h, burst: 3 } } }",
    );
    expect(await times(3, ask)).toEqual([200, 200, 200]);
    const refused = await ask();
    expect([refused.status, faultOf(refused)]).toEqual([429, limited]);
    // Half an hour, less the time of the requests.
    const seconds = Number(fieldOf(refused, "retry-after"));
    expect(seconds).toBeLessThanOrEqual(1_800);
    expect(seconds).toBeGreaterThan(1_790);
    expect(JSON.parse(refused.body).error).toMatchObject({
      code: limited,
      message: expect.stringContaining("per_connection"),
    });
    expect(await times(2, () => ask("here/bob"))).toEqual([200, 200]);
    expect(await times(2, () => ask("there/ada"))).toEqual([200, 200]);
    expect(provider.received().match(/^GET \/x/gm)).toHaveLength(7);
    expect(await running.metric('latchkey_proxy_limited_total{limit="per_connection"}')).toBe(1);
    expect(await running.metric('latchkey_proxy_refused_total{reason="too_many_requests"}')).toBe(1);
    await expect.poll(() => running.metric('latchkey_rate_buckets{limit="per_connection"}')).toBe(3);
  });

  it("accepts the next request at the announced time", async () => {
    const { ask } = await configured("{ rates: { per_connection: { requests: 1, per: 1s } } }");
    expect(outcome(await ask())).toBe(200);
    const refused = await ask();
    expect(fieldOf(refused, "retry-after")).toBe("1");
    await sleep(1_000);
    expect(await times(2, ask)).toEqual([200, limited]);
  });

  it("distinguishes a provider's 429 from latchkey's", async () => {
    const provider = await startProvider((_, socket) => {
      socket.write(
        "HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nlatchkey-error: too_many_requests\r\nContent-Length: 0\r\n\r\n",
      );
    });
    const { data, proxyHeaders } = await startProxied(provider.port);
    const answer = await call(`${data}/proxy/x`, { headers: proxyHeaders });
    expect([answer.status, faultOf(answer), fieldOf(answer, "retry-after")]).toEqual([429, undefined, "7"]);
  });

  it("holds all connections of an integration together, and each key by itself", async () => {
    const rates = "per_integration: { requests: 3, per: 1h }, per_key: { requests: 5, per: 1h }";
    const { running, ask } = await configured(`{ rates: { ${rates} } }`);
    expect([...(await times(2, ask)), ...(await times(2, () => ask("here/bob")))]).toEqual([200, 200, 200, limited]);
    // Refused requests took nothing from other buckets: two of five are left.
    expect(await times(3, () => ask("there/ada"))).toEqual([200, 200, limited]);
    const { secret } = await running
      .client(EnvironmentService)
      .createKey({ environment: "dev", scopes: [Scope.PROXY] });
    const other = { authorization: `Bearer ${secret}` };
    expect(await times(2, () => ask("there/ada", other))).toEqual([200, limited]);
    expect(await running.metric('latchkey_proxy_limited_total{limit="per_integration"}')).toBe(2);
    expect(await running.metric('latchkey_proxy_limited_total{limit="per_key"}')).toBe(1);
  });

  it("gives one integration its own rates", async () => {
    const { ask } = await configured(
      "{ rates: { per_connection: { requests: 1, per: 1h }, integrations: [{ environment: dev, key: there, per_connection: { requests: 2, per: 1h } }] } }",
    );
    expect(await times(2, ask)).toEqual([200, limited]);
    expect(await times(3, () => ask("there/ada"))).toEqual([200, 200, limited]);
  });

  it("limits WebSockets too, and continues after a refused body", async () => {
    const { running, ask } = await configured("{ rates: { per_key: { requests: 1, per: 1h } } }");
    expect(outcome(await ask())).toBe(200);
    const upgrade = await running.raw(
      `GET /proxy/live HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    );
    expect(upgrade).toMatch(/^HTTP\/1\.1 429 /);
    const posted = `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}Content-Length: 5\r\n\r\nhello`;
    const answers = await running.raw(posted + posted);
    expect(answers.match(/HTTP\/1\.1 429 /g)).toHaveLength(2);
  });

  it("keeps buckets over a change of the file, and applies its new rates", async () => {
    const once = "rates: { per_connection: { requests: 1, per: 1h } }";
    const { running, ask, change } = await configured(`{ ${once} }`);
    expect(await times(2, ask)).toEqual([200, limited]);
    await change(`proxy: { ${once} }`);
    expect(await times(2, ask)).toEqual([limited, limited]);
    await change("proxy: { rates: { per_connection: { requests: 1, per: 1h, burst: 0 } } }");
    expect(await running.metric("latchkey_config_rejected")).toBe(1);
    expect(outcome(await ask())).toBe(limited);
    await change("proxy: { rates: { per_connection: { requests: 20, per: 1s, burst: 2 } } }");
    // 50 ms of the hour are left.
    expect(fieldOf(await ask(), "retry-after") ?? "1").toBe("1");
    await sleep(60);
    expect(outcome(await ask())).toBe(200);
    await change("environments: []");
    expect(await times(20, ask)).toEqual(Array(20).fill(200));
  });

  it("counts nothing for unknown callers", async () => {
    const { running, ask } = await configured("{ rates: { per_key: { requests: 2, per: 1h } } }");
    expect(await times(5, () => ask("here/ada", { authorization: "Bearer lk_unknown" }))).toEqual(
      Array(5).fill("unknown_key"),
    );
    expect(await times(3, ask)).toEqual([200, 200, limited]);
    // Routes of our own have no limit.
    expect((await running.rest("GET", "/connections")).status).toBe(200);
  });

  it.each([
    ["a rate without a time", "{ rates: { per_key: { requests: 1 } } }", /proxy\.rates\.per_key\.per/],
    ["no time at all", "{ rates: { per_key: { requests: 1, per: 0s } } }", /per: must be longer than 0/],
    ["a time that is none", "{ rates: { per_key: { requests: 1, per: often } } }", /per: must be a duration/],
    ["a burst of nothing", "{ rates: { per_key: { requests: 1, per: 1s, burst: 0 } } }", /rates\.per_key\.burst/],
    ["an unknown limit", "{ rates: { per_host: { requests: 1, per: 1s } } }", /per_host: unknown key/],
    [
      "an integration twice",
      "{ rates: { integrations: [{ environment: dev, key: a }, { environment: dev, key: a }] } }",
      /must name each integration once/,
    ],
  ])("F02 refuses %s", (_what, proxy, message) => {
    const files = { read: () => ({ text: `proxy: ${proxy}`, mode: 0 }) };
    expect(() => parseChangeable({ path: "/latchkey.yaml", env: {}, files })).toThrow(message);
  });
});

/** A provider that answers the requests that have arrived, in `sockets`, when the test tells it to. */
async function startHesitant() {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => sockets.push(socket));
    socket.resume();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    answerAll() {
      for (const socket of sockets) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    },
  };
}

describe("the number of requests under way", () => {
  it("limits concurrent requests: one more gets Retry-After, and the others continue", async () => {
    const bound = 500;
    const provider = await startHesitant();
    const running = await startProxied(provider.port, {
      files: { "/latchkey.yaml": `proxy: { requests: ${bound} }` },
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    });
    const ask = () => call(`${running.data}/proxy/x`, { headers: running.proxyHeaders, agent: false });
    const open = Array.from({ length: bound }, ask);
    await expect.poll(() => running.metric("latchkey_proxy_open")).toBe(bound);
    const more = await Promise.all(Array.from({ length: 50 }, ask));
    for (const answer of more) {
      expect([answer.status, faultOf(answer), fieldOf(answer, "retry-after")]).toEqual([503, "overloaded", "1"]);
    }
    const wire = await openWire(running.data);
    wire.send(
      `GET /proxy/live HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    );
    expect(await wire.ended).toMatch(/^HTTP\/1\.1 503 /);
    expect((await running.rest("GET", "/connections")).status).toBe(200);
    expect((await fetch(`${running.ops}/readyz`)).status).toBe(200);
    expect((await running.client(EnvironmentService).listEnvironments({})).environments).toHaveLength(1);
    expect(await running.metric("latchkey_proxy_open")).toBe(bound);
    expect(await running.metric('latchkey_proxy_limited_total{limit="requests"}')).toBe(51);

    await expect.poll(() => provider.sockets.length).toBe(bound);
    provider.answerAll();
    expect((await Promise.all(open)).map(({ status }) => status)).toEqual(Array(bound).fill(200));
    await expect.poll(() => running.metric("latchkey_proxy_open")).toBe(0);
    const after = ask();
    await expect.poll(() => provider.sockets.length).toBe(bound + 1);
    provider.answerAll();
    expect((await after).status).toBe(200);
  });

  it("frees a slot when the caller leaves, and when the request fails", async () => {
    const provider = await startHesitant();
    const running = await startProxied(provider.port, {
      files: { "/latchkey.yaml": "proxy: { requests: 1 }" },
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    });
    const lines = `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`;
    for (let i = 0; i < 3; i += 1) {
      const wire = await openWire(running.data);
      wire.send(lines);
      await expect.poll(() => running.metric("latchkey_proxy_open")).toBe(1);
      wire.socket.destroy();
      await expect.poll(() => running.metric("latchkey_proxy_open")).toBe(0);
    }
    for (let i = 0; i < 3; i += 1) {
      const answer = await call(`${running.data}/proxy/x`, {
        headers: { ...running.proxyHeaders, "connection-id": "none" },
      });
      expect(faultOf(answer)).toBe("unknown_connection");
    }
  });
});

/** Blocks the event loop in intervals until it is stopped. */
function blocking(forMs: number): () => void {
  let isOver = false;
  const block = () => {
    const until = performance.now() + forMs;
    while (performance.now() < until);
    if (!isOver) setImmediate(block);
  };
  setImmediate(block);
  const stop = () => {
    isOver = true;
  };
  onTestFinished(stop);
  return stop;
}

describe("a process that cannot keep up", () => {
  it("refuses new requests, completes those in progress, and accepts requests again when it can", async () => {
    const provider = await startHesitant();
    const running = await startProxied(provider.port, {
      files: { "/latchkey.yaml": "proxy: { overload: { delay: 250ms, for: 1s } }" },
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    });
    const ask = () => call(`${running.data}/proxy/x`, { headers: running.proxyHeaders, agent: false });
    const before = ask();
    await expect.poll(() => provider.sockets.length).toBe(1);

    // A little longer than is allowed, but not for long enough.
    const soonOver = blocking(350);
    await sleep(600);
    soonOver();
    await sleep(500);
    expect(await running.metric("latchkey_overloaded")).toBe(0);

    const stop = blocking(350);
    await expect.poll(() => running.metric("latchkey_overloaded")).toBe(1);
    const refused = await ask();
    expect([refused.status, faultOf(refused)]).toEqual([503, "overloaded"]);
    expect(Number(fieldOf(refused, "retry-after"))).toSatisfy((seconds: number) => seconds >= 1 && seconds <= 3);
    expect((await running.rest("GET", "/connections")).status).toBe(200);
    expect((await fetch(`${running.ops}/readyz`)).status).toBe(200);
    expect(await running.metric('latchkey_proxy_limited_total{limit="overload"}')).toBe(1);
    provider.answerAll();
    expect((await before).status).toBe(200);

    stop();
    await expect.poll(() => running.metric("latchkey_overloaded")).toBe(0);
    const after = ask();
    await expect.poll(() => provider.sockets.length).toBe(2);
    provider.answerAll();
    expect((await after).status).toBe(200);
    const told = running.logged.map((line) => JSON.parse(line)).filter(({ msg }) => /overloaded/.test(msg));
    expect(told.map(({ level, turned_away }) => [level, turned_away])).toEqual([
      ["warn", undefined],
      ["info", 1],
    ]);
  });

  it("does not count requests that were only paused", async () => {
    const provider = await startProvider(ok);
    const running = await startProxied(provider.port, {
      files: { "/latchkey.yaml": "proxy: { overload: { delay: 250ms, for: 500ms } }" },
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    });
    const until = performance.now() + 2_000;
    while (performance.now() < until);
    await sleep(1_000);
    expect(running.logged.filter((line) => /overloaded/.test(line))).toEqual([]);
  });
});
