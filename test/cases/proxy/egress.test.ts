import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { createEgress } from "../../../src/relay/egress.ts";
import type { Origin } from "../../../src/relay/origin.ts";
import { startDns } from "../../support/peers/dns.ts";
import { type Answering, apiKey, startProvider, startProxied } from "../../support/peers/provider.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";

const portOf = async () => {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await once(server.close(), "close");
  return port;
};

it("P21: goes nowhere that a name leads to within, whichever of its addresses that is, and however it is led", async () => {
  let asked = 0;
  const resolve = await startDns({
    "private.test": () => ({ addresses: ["10.1.2.3"] }),
    "loopback.test": () => ({ addresses: ["127.0.0.1"] }),
    "metadata.test": () => ({ addresses: ["169.254.169.254"] }),
    "mixed.test": () => ({ addresses: ["1.1.1.1", "::1"] }),
    "mixed-too.test": () => ({ addresses: ["127.0.0.1", "2606:4700:4700::1111"] }),
    "mapped.test": () => ({ addresses: ["::ffff:7f00:1"] }),
    "alias.test": () => ({ alias: "inner.test", addresses: ["192.168.1.1"] }),
    "rebinding.test": () => {
      asked += 1;
      return { addresses: asked <= 2 ? ["1.1.1.1"] : ["127.0.0.1"] };
    },
    "empty.test": () => ({ addresses: [] }),
  });
  const provider = await startProvider();
  const { port } = provider;
  const allowed = `https://allowed.test:${port}`;
  const hosts = ["private", "loopback", "metadata", "mixed", "mixed-too", "mapped", "alias", "empty", "nowhere"];
  const origins = hosts.map((name) => ({ origin: `https://${name}.test:${port}` }));
  const running = await startProxied(port, {
    resolve,
    provider: { proxy: { baseUrl: allowed, hosts: origins } },
    env: { LATCHKEY_ALLOW_PRIVATE: `127.0.0.1:${port},http://allowed.test:${port}` },
  });
  const ask = (name: string) =>
    call(`${running.data}/proxy/x`, {
      headers: { ...running.proxyHeaders, "base-url-override": `https://${name}.test:${port}` },
    });
  const kinds = {
    ...{ private: "private", loopback: "loopback", metadata: "link-local", mixed: "loopback" },
    ...{ "mixed-too": "loopback", mapped: "loopback", alias: "private" },
  };
  for (const [name, kind] of Object.entries(kinds)) {
    const answer = await ask(name);
    expect([answer.status, faultOf(answer)], name).toEqual([403, "host_not_allowed"]);
    // The operator learns the kind of address; the caller learns no more than that.
    const { message } = JSON.parse(answer.body).error;
    expect(message, name).toContain(kind);
    expect(message, name).not.toMatch(/10\.1\.2\.3|127\.0|169\.254|192\.168|::1/);
  }
  for (const name of ["nowhere", "empty"]) {
    const answer = await ask(name);
    expect([answer.status, faultOf(answer)], name).toEqual([502, "provider_unknown"]);
  }
  expect(provider.connections).toHaveLength(0);

  // A name that was allowed at first is resolved again for the next connection.
  const egress = createEgress({ resolve, allowPrivate: [] });
  const origin: Origin = { scheme: "https", host: "rebinding.test", port: 443 };
  const look = () =>
    new Promise<string>((done) =>
      egress.lookupFor(origin)(origin.host, { all: true }, (error, found) =>
        done(error === null ? JSON.stringify(found) : error.message),
      ),
    );
  expect(await look()).toContain("1.1.1.1");
  expect(await look()).toContain("loopback");
});

it("goes to a private place that the operator names, by host and port and no further", async () => {
  const resolve = await startDns({
    "allowed.test": () => ({ addresses: ["127.0.0.1"] }),
  });
  const provider = await startProvider();
  const other = await startProvider();
  const running = await startProxied(provider.port, {
    resolve,
    provider: {
      proxy: {
        baseUrl: `https://allowed.test:${provider.port}/v1`,
        hosts: [{ origin: `https://allowed.test:${other.port}` }, { origin: `https://127.0.0.1:${provider.port}` }],
      },
    },
    env: { LATCHKEY_ALLOW_PRIVATE: `http://allowed.test:${provider.port}` },
  });
  const ask = (more: Readonly<Record<string, string>>) =>
    call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, ...more } });
  expect((await ask({})).status).toBe(200);
  expect(provider.connections[0]?.requests()[0]?.line).toBe("GET /v1/x HTTP/1.1");
  expect(provider.connections[0]?.requests()[0]?.fields).toContainEqual(["host", `allowed.test:${provider.port}`]);
  for (const origin of [`https://allowed.test:${other.port}`, `https://127.0.0.1:${provider.port}`]) {
    const answer = await ask({ "base-url-override": origin });
    expect([answer.status, faultOf(answer)], origin).toEqual([403, "host_not_allowed"]);
  }
  expect(other.connections).toHaveLength(0);
});

/** Facts 3.5: inputs that leave a templated host, and inputs that change it silently. */
const escapes = [
  ...[
    "evil.test/#",
    "evil.test/?",
    "evil.test#",
    "evil.test\\",
    "x@evil.test/",
    "evil.test:80\\@",
    "169.254.169.254/#",
  ],
  ...[
    "2130706433/#",
    "0x7f.1/#",
    "127.1/#",
    "[::1]/#",
    "localhost./#",
    "acme.example.com:8443/",
    "acme\t.",
    "acme%2eevil",
  ],
  ...[
    "\u0430\u0441me",
    "\u24d4vil",
    "ac\u00adme",
    "",
    " ",
    "acme\n",
    "-acme",
    "acme-",
    "a..b",
    ".",
    "..",
    "ACME",
    `${"a".repeat(64)}`,
  ],
  ...[
    "acme:8443",
    "evil.test:443/x",
    "u:p@evil.test",
    "${connectionConfig.other}",
    "acme\0",
    "evil.test;",
    "evil.test,",
  ],
];

async function templated(pattern: string): Promise<{ running: TestSidecar; resolved: string[] }> {
  const resolved: string[] = [];
  const running = await startTestSidecar({
    resolve: async (host) => {
      resolved.push(host);
      return [{ address: "127.0.0.1", family: 4 }];
    },
  });
  await running.client(ProviderService).createProvider({
    provider: {
      name: "shops",
      auth: { case: "apiKey", value: { header: "x-api-key" } },
      proxy: { baseUrl: "https://${connectionConfig.shop}.example.test/v1" },
      connectionFields: [{ name: "shop", pattern, required: true }],
    },
  });
  await running.rest("POST", "/integrations", { body: { unique_key: "shops", provider: "shops" } });
  return { running, resolved };
}

const imported = ({ rest }: TestSidecar, id: string, shop: string) =>
  rest("POST", "/connections", {
    body: {
      provider_config_key: "shops",
      connection_id: id,
      connection_config: { shop, other: "evil" },
      credentials: { type: "API_KEY", apiKey },
    },
  });

it("P20: refuses a value for a part of a host on input, if the provider defines its form", async () => {
  const { running } = await templated("[a-z0-9][a-z0-9\\-]{0,61}[a-z0-9]");
  for (const [i, shop] of escapes.entries()) {
    expect((await imported(running, `c${i}`, shop)).status, JSON.stringify(shop)).toBe(400);
  }
  expect((await imported(running, "good", "acme")).status).toBe(201);
});

it("P20: and at use if it does not, before any lookup or connection", async () => {
  const { running, resolved } = await templated("[^]*");
  const headers = (id: string) => ({ "provider-config-key": "shops", "connection-id": id });
  for (const [i, shop] of escapes.entries()) {
    if ((await imported(running, `c${i}`, shop)).status !== 201) continue;
    const answer = await running.rest("GET", "/proxy/x", { headers: headers(`c${i}`) });
    expect(answer.status, JSON.stringify(shop)).toBe(424);
    expect(answer.headers.get("latchkey-error")).toBe("connection_unusable");
  }
  expect(resolved).toEqual([]);
  await imported(running, "good", "acme");
  await running.rest("GET", "/proxy/x", { headers: headers("good") });
  expect(resolved).toEqual(["acme.example.test"]);
});

it("P22: passes redirects to the caller, sends the body once, and rewrites those within the provider to this listener", async () => {
  const provider = await startProvider((request, socket) => {
    const [, path = ""] = request.line.split(" ");
    const [, status = "", to = ""] = /^\/v1\/(\d+)\?(.*)$/.exec(path) ?? [];
    socket.write(`HTTP/1.1 ${status} Moved\r\nLocation: ${decodeURIComponent(to)}\r\nContent-Length: 0\r\n\r\n`);
  });
  const elsewhere = await startProvider();
  const base = `https://127.0.0.1:${provider.port}`;
  const running = await startProxied(provider.port, { provider: { proxy: { baseUrl: `${base}/v1` } } });
  const ask = (status: number, to: string, method = "GET") =>
    call(`${running.data}/proxy/${status}?${encodeURIComponent(to)}`, {
      method,
      headers: running.proxyHeaders,
      ...(method === "POST" ? { body: "the body" } : {}),
    });
  for (const status of [301, 302, 303, 307, 308]) {
    const to = `http://127.0.0.1:${elsewhere.port}/steal`;
    const answer = await ask(status, to, "POST");
    expect([answer.status, fieldOf(answer, "location")]).toEqual([status, to]);
  }
  expect(elsewhere.connections).toHaveLength(0);
  expect(provider.received().split("the body")).toHaveLength(6);
  const kept = {
    [`${base}/v1/next?a=b`]: "/proxy/next?a=b",
    "/v1/next": "/proxy/next",
    [`${base}/v1/`]: "/proxy/",
    [`https://u@127.0.0.1:${provider.port}/v1/x`]: "/proxy/x",
  };
  for (const [to, expected] of Object.entries(kept)) {
    expect(fieldOf(await ask(302, to), "location"), to).toBe(expected);
  }
  const left = [
    ...[`${base}/v2/next`, `${base}/v10`, `${base}.evil.test/v1/x`, "https://u@evil.test/v1/x"],
    ...["https://evil.test/v1/next", `http://127.0.0.1:${provider.port + 1}/v1/x`, `${base}/v1/../connections/ada`],
    ...[`${base}/v1/%2e%2e/connections/ada`, "urn:x", "myapp:/x"],
  ];
  for (const to of left) expect(fieldOf(await ask(302, to), "location"), to).toBe(to);
  // Relative to the provider's address and not to latchkey's: a provider must not choose among latchkey's routes.
  const relative = {
    next: "/proxy/next",
    "?a=b": "/proxy/302?a=b",
    "/v1/next#there": "/proxy/next#there",
    "../connections/ada": `${base}/connections/ada`,
    "/connections/ada": `${base}/connections/ada`,
    "/v1/../connections/ada": `${base}/connections/ada`,
    "/\\evil.test/x": "https://evil.test/x",
    "//evil.test/v1/x": "https://evil.test/v1/x",
  };
  for (const [to, expected] of Object.entries(relative)) {
    expect(fieldOf(await ask(302, to), "location"), to).toBe(expected);
  }
});

it("P22: with a provider of several hosts, a redirect leads only to the hosts that it names", async () => {
  const moving = await startProvider((request, socket) => {
    const to = decodeURIComponent(/\?([^ ]*)/.exec(request.line)?.[1] ?? "");
    socket.write(`HTTP/1.1 302 Found\r\nLocation: ${to}\r\nContent-Length: 0\r\n\r\n`);
  });
  const sheets = `https://127.0.0.1:${moving.port}`;
  const files = await startProvider();
  const running = await startProxied(files.port, {
    provider: {
      proxy: { baseUrl: `https://127.0.0.1:${files.port}`, hosts: [{ prefix: "/sheets/", origin: sheets }] },
    },
    env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${files.port},http://127.0.0.1:${moving.port}` },
  });
  const locationOf = async (to: string, more: Readonly<Record<string, string>> = {}) => {
    const headers = { ...running.proxyHeaders, ...more };
    return fieldOf(await call(`${running.data}/proxy/sheets/x?${encodeURIComponent(to)}`, { headers }), "location");
  };
  expect(await locationOf("/sheets/y")).toBe("/proxy/sheets/y");
  // That path would belong to the other host.
  expect(await locationOf("/y")).toBe(`${sheets}/y`);
  expect(await locationOf("/y", { "base-url-override": sheets })).toBe("/proxy/y");
});

const withLimits = (proxy: Readonly<Record<string, number>>) => ({
  env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
  files: { "/latchkey.yaml": JSON.stringify({ proxy }) },
});

/** Starts with its own limits: `startProxied` uses the environment for the provider. */
const proxiedWith = (port: number, proxy: Readonly<Record<string, number>>) => startProxied(port, withLimits(proxy));

it("P25: times out on a provider that is silent, drips, or stops in the middle", async () => {
  const says: Record<string, Answering> = {
    "/silent": () => {},
    "/drops": (_, socket) => {
      let at = 0;
      const dripping = setInterval(() => {
        const text = "HTTP/1.1 200 OK\r\nX-Long: ".padEnd(2_000, "a");
        at += 1;
        if (socket.writable) socket.write(text[at - 1] ?? "");
      }, 40);
      socket.on("close", () => clearInterval(dripping));
    },
    "/hints": (_, socket) => {
      const hinting = setInterval(() => {
        if (socket.writable) socket.write("HTTP/1.1 102 Processing\r\n\r\n");
      }, 100);
      socket.on("close", () => clearInterval(hinting));
    },
    "/stalls": (_, socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
    "/slow-but-steady": (_, socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
      for (const [i, byte] of [..."hello"].entries()) setTimeout(() => socket.write(byte), 300 * (i + 1));
    },
  };
  const provider = await startProvider((request, socket, count) =>
    says[request.line.split(" ")[1] ?? ""]?.(request, socket, count),
  );
  const running = await proxiedWith(provider.port, { answer_ms: 500, idle_ms: 700 });
  const ask = (path: string) => call(`${running.data}/proxy${path}`, { headers: running.proxyHeaders });
  const elapsed = startStopwatch();
  const [silent, drops, hints, stalls, steady] = await Promise.all(Object.keys(says).map(ask));
  expect(elapsed.ms).toBeLessThan(3_000);
  for (const answer of [silent, drops, hints]) {
    expect([answer?.status, answer && faultOf(answer)]).toEqual([504, "provider_timeout"]);
  }
  expect(stalls).toMatchObject({ status: 200, body: "hello", outcome: "cut" });
  expect(steady).toMatchObject({ status: 200, body: "hello", outcome: "ended" });
});

it("P26: reports how a provider is unreachable", async () => {
  const port = await portOf();
  // Accepts connections, and never starts TLS.
  const mute = await startProvider(() => {});
  const running = await startProxied(port, {
    ...withLimits({ connect_ms: 300 }),
    provider: {
      proxy: {
        baseUrl: `https://127.0.0.1:${port}`,
        hosts: [{ origin: `https://127.0.0.1:${mute.port}` }, { origin: "https://does-not-exist.invalid" }],
      },
    },
    env: {
      LATCHKEY_CONFIG: "/latchkey.yaml",
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port},127.0.0.1:${mute.port}`,
    },
    resolve: () => Promise.reject(Object.assign(new Error("queryA ESERVFAIL"), { code: "ESERVFAIL" })),
  });
  const ask = async (origin?: string) => {
    const override = origin === undefined ? {} : { "base-url-override": origin };
    const answer = await call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, ...override } });
    return [answer.status, faultOf(answer)];
  };
  expect(await ask()).toEqual([502, "provider_unreachable"]);
  expect(await ask("https://does-not-exist.invalid")).toEqual([502, "provider_unknown"]);
  expect(await ask(`https://127.0.0.1:${mute.port}`)).toEqual([504, "provider_timeout"]);
  expect(mute.received()).not.toContain(apiKey);
});

it("a provider that is stuck takes no more than its share, and starves no other", async () => {
  const held: (() => void)[] = [];
  const stuck = await startProvider((request, socket) => {
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${request.body.length}\r\n\r\n${request.body}`;
    held.push(() => socket.write(answer));
  });
  const lively = await startProvider();
  const running = await startProxied(stuck.port, {
    files: withLimits({ requests_per_host: 2, waiting_per_host: 4, connect_ms: 5_000 }).files,
    provider: {
      proxy: {
        baseUrl: `https://127.0.0.1:${stuck.port}`,
        hosts: [{ prefix: "/lively/", origin: `https://127.0.0.1:${lively.port}` }],
      },
    },
    env: {
      LATCHKEY_CONFIG: "/latchkey.yaml",
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${stuck.port},http://127.0.0.1:${lively.port}`,
    },
  });
  const post = (body: string, headers: Readonly<Record<string, string>> = {}) =>
    call(`${running.data}/proxy/x`, { method: "POST", headers: { ...running.proxyHeaders, ...headers }, body });
  const large = "large ".repeat(100_000);
  const bodies = [large, "small", "third, which waits", large];
  const answers = [post(large), post("small")];
  while (held.length < 2) await new Promise((done) => setTimeout(done, 5));
  answers.push(...bodies.slice(2).map((body) => post(body)));
  const chunked = post("fifth, in chunks", { "transfer-encoding": "chunked" });
  const leaving = new AbortController();
  const left = fetch(`${running.data}/proxy/left`, { headers: running.proxyHeaders, signal: leaving.signal }).catch(
    () => "left",
  );
  await new Promise((done) => setTimeout(done, 50));
  const refused = await post("too many");
  expect([refused.status, faultOf(refused), fieldOf(refused, "retry-after")]).toEqual([503, "overloaded", "1"]);
  expect((await call(`${running.data}/proxy/lively/x`, { headers: running.proxyHeaders })).status).toBe(200);
  leaving.abort();
  expect(await left).toBe("left");
  // The sidecar has seen it leave before a connection becomes free.
  await expect.poll(() => running.metric('latchkey_proxy_connections{state="waiting"}'), { interval: 5 }).toBe(3);
  const releasing = setInterval(() => held.shift()?.(), 5);
  onTestFinished(() => clearInterval(releasing));
  for (const [i, answer] of (await Promise.all(answers)).entries()) {
    expect([answer.status, answer.body === bodies[i]], `body ${i}`).toEqual([200, true]);
  }
  expect(await chunked).toMatchObject({ status: 200, body: "fifth, in chunks" });
  expect(stuck.received()).not.toContain("/left");
  expect(stuck.connections.length).toBe(2);
});

it("a caller that waits too long for a stuck provider gets an error, and a free slot goes to the next", async () => {
  const provider = await startProvider(() => {});
  const running = await proxiedWith(provider.port, { requests_per_host: 1, waiting_per_host: 8, connect_ms: 400 });
  const stuck = call(`${running.data}/proxy/stuck`, { headers: running.proxyHeaders }).catch(() => "cut");
  while (provider.connections.length === 0) await new Promise((done) => setTimeout(done, 5));
  const elapsed = startStopwatch();
  const waiting = await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders });
  expect([waiting.status, faultOf(waiting)]).toEqual([503, "overloaded"]);
  expect(elapsed.ms).toBeLessThan(1_500);
  expect(provider.received()).not.toContain("/proxy/x");
  provider.connections[0]?.socket.destroy();
  expect(await stuck).toMatchObject({ status: 502 });
});
