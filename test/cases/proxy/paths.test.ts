import { expect, it } from "vitest";
import { apiKey, type RecordingProvider, startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { climbing, faithful, unsafe, wrongBaseUrls } from "../../support/wire/path-corpus.ts";

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
const codeOf = (answer: string) => /^latchkey-error: (.*)$/m.exec(answer)?.[1]?.trim();
const linesAt = ({ connections }: RecordingProvider) =>
  connections.flatMap(({ requests }) => requests()).map(({ line }) => line);

/** The answers to requests with these targets, one after another, in words: `400 invalid_path`. */
async function outcomesOf(targets: readonly string[], { method = "GET", provider = {}, fields = "" } = {}) {
  const recording = await startProvider();
  const sidecar = await startProxied(recording.port, provider);
  const outcomes: Record<string, string> = {};
  for (const target of targets) {
    const request = `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${sidecar.proxyLines}${fields}\r\n`;
    const answer = await sidecar.raw(request);
    outcomes[target] = [statusOf(answer), codeOf(answer)].join(" ").trim();
  }
  return { outcomes, provider: recording, sidecar };
}

const all = (targets: readonly string[], outcome: string) => Object.fromEntries(targets.map((one) => [one, outcome]));

it("P11 lets no path climb, however its dots and slashes are written", async () => {
  const targets = climbing.map((path) => `/proxy${path}`);
  const { outcomes, provider } = await outcomesOf(targets);
  expect(outcomes).toEqual(all(targets, "400 invalid_path"));
  expect(provider.connections).toHaveLength(0);
});

it("P12 keeps doubled slashes, and the host", async () => {
  const targets = ["/proxy//evil.test/x", "/proxy/a//b", "/proxy///", "/proxy//", "/proxy/a/"];
  const { outcomes, provider } = await outcomesOf(targets);
  expect(outcomes).toEqual(all(targets, "200"));
  expect(linesAt(provider)).toEqual(targets.map((target) => `GET ${target.slice("/proxy".length)} HTTP/1.1`));
  const hosts = provider.connections.flatMap(({ requests }) => requests().flatMap(({ fields }) => fields));
  expect(hosts.filter(([name]) => name === "host").map(([, value]) => value)).toEqual(
    targets.map(() => `127.0.0.1:${provider.port}`),
  );
});

it("P13 refuses a backslash, and keeps one that is encoded", async () => {
  const refused = ["/proxy/\\evil.test", "/proxy/a\\..\\b", "/proxy\\evil.test"];
  const { outcomes, provider } = await outcomesOf([...refused, "/proxy/a%5cb"]);
  expect(outcomes).toEqual({
    "/proxy/\\evil.test": "400 invalid_path",
    "/proxy/a\\..\\b": "400 invalid_path",
    "/proxy\\evil.test": "404 not_found",
    "/proxy/a%5cb": "200",
  });
  expect(linesAt(provider)).toEqual(["GET /a%5cb HTTP/1.1"]);
});

it("P14 goes to no host outside the binding, and opens no tunnel", async () => {
  const provider = await startProvider();
  const elsewhere = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port);
  const ask = async (line: string, host = "localhost") => {
    const answer = await raw(`${line}\r\nHost: ${host}\r\nConnection: close\r\n${proxyLines}\r\n`);
    return [statusOf(answer), codeOf(answer)].join(" ");
  };
  const own = `127.0.0.1:${provider.port}`;
  for (const url of [
    "http://evil.test/proxy/x",
    "https://evil.test/x",
    `http://127.0.0.1:${elsewhere.port}/x`,
    `http://${own}@evil.test/x`,
    `http://evil.test@${own}/x`,
    `http://${own}.evil.test/x`,
    `http://localhost:${provider.port}/x`,
    "http://127.1/x",
    "http://127.0.0.1/x",
    "http:///x",
    "HTTP://EVIL.TEST/x",
  ]) {
    expect([url, await ask(`GET ${url} HTTP/1.1`)]).toEqual([url, "403 host_not_allowed"]);
    // The request line decides, whatever the Host header.
    expect([url, await ask(`GET ${url} HTTP/1.1`, own)]).toEqual([url, "403 host_not_allowed"]);
  }
  expect(await ask("GET ftp://evil.test/x HTTP/1.1")).toMatch(/^400 /);
  expect(await ask("GET evil.test/proxy/x HTTP/1.1")).toMatch(/^400 /);
  expect(await ask("CONNECT evil.test:443 HTTP/1.1")).toBe("405 method_not_allowed");
  expect(await ask(`CONNECT ${own} HTTP/1.1`)).toBe("405 method_not_allowed");
  expect(await ask("TRACE /proxy/x HTTP/1.1")).toBe("405 method_not_allowed");
  expect(await ask(`TRACE http://${own}/x HTTP/1.1`)).toBe("405 method_not_allowed");
  expect(await ask("PRI * HTTP/2.0")).toBe("400 malformed_request");
  expect(await ask("PRI /proxy/x HTTP/1.1")).toMatch(/^4/);
  expect(provider.connections).toHaveLength(0);
  expect(elsewhere.connections).toHaveLength(0);
});

it("P14 names the supported methods instead of TRACE and CONNECT, and closes the connection", async () => {
  const provider = await startProvider();
  const { probe, proxyLines, metric } = await startProxied(provider.port);
  for (const line of ["TRACE /proxy/x HTTP/1.1", "CONNECT x:1 HTTP/1.1"]) {
    const bytes = `${line}\r\nHost: localhost\r\n${proxyLines}\r\nbytes of a tunnel`;
    const { text, isClosed } = await probe(bytes, { silentMs: 2_000 });
    expect(text).toMatch(/^allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r$/im);
    expect(isClosed).toBe(true);
  }
  expect(await metric('latchkey_http_requests_open{door="data"}')).toBe(0);
});

it("accepts requests in absolute form, as a forward proxy, to the hosts of the connection", async () => {
  const provider = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port, {
    provider: { proxy: { baseUrl: `https://127.0.0.1:${provider.port}/v1` } },
  });
  const own = `127.0.0.1:${provider.port}`;
  // Clients name the proxied host, or the proxy itself.
  for (const host of [own, "localhost", "evil.test"]) {
    for (const url of [`http://${own}/v1/x?y=1`, `https://${own}/v2`, `HTTP://${own}?q`, `http://${own}`]) {
      const answer = await raw(`GET ${url} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${proxyLines}\r\n`);
      expect([url, statusOf(answer)]).toEqual([url, 200]);
    }
  }
  expect(new Set(linesAt(provider))).toEqual(
    new Set(["GET /v1/x?y=1 HTTP/1.1", "GET /v2 HTTP/1.1", "GET /?q HTTP/1.1", "GET / HTTP/1.1"]),
  );
  expect(provider.received()).not.toContain("evil.test");
  for (const rest of ["/../x", "/x#y", "/a\\b", "/%00"]) {
    const answer = await raw(`GET http://${own}${rest} HTTP/1.1\r\nHost: ${own}\r\n${proxyLines}\r\n`);
    expect([rest, codeOf(answer)]).toEqual([rest, "invalid_path"]);
  }
});

it("takes no request in absolute form from a web page", async () => {
  const provider = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port);
  const line = `GET http://127.0.0.1:${provider.port}/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}`;
  expect(codeOf(await raw(`${line}Origin: http://evil.test\r\n\r\n`))).toBe("origin_not_allowed");
  expect(codeOf(await raw(`${line}Sec-Fetch-Site: cross-site\r\n\r\n`))).toBe("origin_not_allowed");
  expect(provider.connections).toHaveLength(0);
});

it("P15 does not mistake similar paths for the proxy", async () => {
  const targets = [
    "/proxy@evil.test/x",
    "/proxyx",
    "/proxy.evil.test",
    "/proxy:80/x",
    "/proxy",
    "/proxy?x",
    "/Proxy/x",
  ];
  const { outcomes, provider } = await outcomesOf([...targets, "//proxy/x", "/x/../proxy/y"]);
  expect(outcomes).toEqual(all([...targets, "//proxy/x", "/x/../proxy/y"], "404 not_found"));
  const { outcomes: encoded, provider: untouched } = await outcomesOf(["/%70roxy/x", "/proxy%2fx"]);
  expect(Object.values(encoded).every((outcome) => /^(?:404|501) /.test(outcome))).toBe(true);
  expect(untouched.connections).toHaveLength(0);
  expect(provider.connections).toHaveLength(0);
});

it("P16 refuses fragments, and encoded line breaks and NUL", async () => {
  const targets = unsafe.map((path) => `/proxy${path}`);
  const { outcomes, provider } = await outcomesOf(targets);
  expect(outcomes).toEqual(all(targets, "400 invalid_path"));
  expect(provider.connections).toHaveLength(0);
});

it("P17 fills in no placeholder that a caller wrote", async () => {
  const targets = [
    "/proxy/x?t=${access_token}&u=${connectionConfig.x}&v=${apiKey}",
    "/proxy/${connectionConfig.x}/{{credentials.apiKey}}",
  ];
  const { outcomes, provider } = await outcomesOf(targets, { fields: "X-Filled: ${apiKey} ${connectionConfig.x}\r\n" });
  expect(outcomes).toEqual(all(targets, "200"));
  expect(linesAt(provider)).toEqual(targets.map((target) => `GET ${target.slice("/proxy".length)} HTTP/1.1`));
  expect(provider.received()).toContain("X-Filled: ${apiKey} ${connectionConfig.x}\r\n");
});

it("P18 hands on the path and the query byte for byte", async () => {
  expect(faithful).toHaveLength(22);
  const { outcomes, provider } = await outcomesOf(faithful.map((path) => `/proxy${path}`));
  expect(new Set(Object.values(outcomes))).toEqual(new Set(["200"]));
  expect(linesAt(provider)).toEqual(faithful.map((path) => `GET ${path} HTTP/1.1`));
});

it("P18 changes of a query only the parameter that the credentials bring", async () => {
  const provider = { provider: { auth: { case: "apiKey", value: { query: "api_key" } } } };
  const targets = [
    "/a",
    "/a?",
    "/a??",
    "/a?b=c&api_key=mine&d",
    "/a?api%5Fkey=mine&b='{}\"",
    "/a?API_KEY=x",
    "/a?api_key",
  ];
  const { outcomes, provider: recording } = await outcomesOf(
    targets.map((path) => `/proxy${path}`),
    { provider },
  );
  expect(new Set(Object.values(outcomes))).toEqual(new Set(["200"]));
  expect(linesAt(recording)).toEqual(
    [
      `/a?api_key=${apiKey}`,
      `/a?api_key=${apiKey}`,
      `/a??&api_key=${apiKey}`,
      `/a?b=c&d&api_key=${apiKey}`,
      `/a?b='{}"&api_key=${apiKey}`,
      `/a?API_KEY=x&api_key=${apiKey}`,
      `/a?api_key=${apiKey}`,
    ].map((target) => `GET ${target} HTTP/1.1`),
  );
});

it("appends the path to the base path, and never leaves it", async () => {
  const recording = await startProvider();
  const { raw, proxyLines } = await startProxied(recording.port, {
    provider: { proxy: { baseUrl: `https://127.0.0.1:${recording.port}/v1/` } },
  });
  for (const path of ["/x", "//evil.test", "/"]) {
    await raw(`GET /proxy${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${proxyLines}\r\n`);
  }
  expect(linesAt(recording)).toEqual(["GET /v1/x HTTP/1.1", "GET /v1//evil.test HTTP/1.1", "GET /v1/ HTTP/1.1"]);
});

it("P19 sends credentials to no address that a caller names, unless it is the provider's", async () => {
  const provider = await startProvider();
  const elsewhere = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port);
  const spellings = wrongBaseUrls({
    own: `127.0.0.1:${provider.port}`,
    port: provider.port,
    elsewhere: elsewhere.port,
  });
  const wrong: string[] = [];
  for (const spelling of spellings) {
    const answer = await raw(
      Buffer.from(
        `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${proxyLines}Base-Url-Override: ${spelling}\r\n\r\n`,
      ),
    );
    if (codeOf(answer) !== "host_not_allowed" || statusOf(answer) !== 403)
      wrong.push(`${spelling}: ${answer.slice(0, 99)}`);
  }
  expect(wrong).toEqual([]);
  expect(provider.connections).toHaveLength(0);
  expect(elsewhere.connections).toHaveLength(0);
});

it("P19 takes another base URL on a host of the provider's, and none for an empty one", async () => {
  const provider = await startProvider();
  const other = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port, {
    env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port},http://127.0.0.1:${other.port}` },
    integration: {},
    provider: {
      proxy: {
        baseUrl: `https://127.0.0.1:${provider.port}/v1`,
        hosts: [{ origin: `https://127.0.0.1:${other.port}` }],
      },
    },
  });
  const ask = async (override: string) =>
    statusOf(
      await raw(
        `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${proxyLines}Base-Url-Override: ${override}\r\n\r\n`,
      ),
    );
  for (const override of [
    "",
    `https://127.0.0.1:${provider.port}`,
    `https://127.0.0.1:${provider.port}/`,
    `HTTPS://127.0.0.1:${provider.port}/v2/`,
    `https://127.0.0.1:${other.port}/upload`,
  ]) {
    expect([override, await ask(override)]).toEqual([override, 200]);
  }
  expect(linesAt(provider)).toEqual(["GET /v1/x HTTP/1.1", "GET /x HTTP/1.1", "GET /x HTTP/1.1", "GET /v2/x HTTP/1.1"]);
  expect(linesAt(other)).toEqual(["GET /upload/x HTTP/1.1"]);
  expect(provider.received() + other.received()).not.toMatch(/base-url-override/i);
});

it("sends OPTIONS and HEAD on to the provider", async () => {
  const provider = await startProvider((request, socket) => {
    const isHead = request.line.startsWith("HEAD");
    socket.write(`HTTP/1.1 200 OK\r\nAllow: GET, X\r\nContent-Length: 5\r\n\r\n${isHead ? "" : "hello"}`);
  });
  const { raw, proxyLines } = await startProxied(provider.port);
  const ask = (method: string) =>
    raw(
      `${method} /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\nGET /proxy/y HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${proxyLines}\r\n`,
    );
  const options = await ask("OPTIONS");
  expect(options).toMatch(/^Allow: GET, X\r$/m);
  expect(options.split("hello")).toHaveLength(3);
  const head = await ask("HEAD");
  expect(head.split("HTTP/1.1 200 OK")).toHaveLength(3);
  expect(head).toMatch(/^Content-Length: 5\r$/m);
  expect(head.split("hello")).toHaveLength(2);
  expect(linesAt(provider).toSorted()).toEqual(
    ["OPTIONS /x HTTP/1.1", "GET /y HTTP/1.1", "HEAD /x HTTP/1.1", "GET /y HTTP/1.1"].toSorted(),
  );
});

it("answers OPTIONS for itself, and never sends it on", async () => {
  const { outcomes, provider } = await outcomesOf(["*", "/proxy", "/connections"], { method: "OPTIONS" });
  expect(outcomes["*"]).toBe("204");
  expect(outcomes["/connections"]).toBe("204");
  expect(provider.connections).toHaveLength(0);
});

it("takes paths of 8 KiB and no longer ones", async () => {
  const long = `/proxy/${"a".repeat(8 * 1024 - "/proxy/".length)}`;
  const { outcomes, provider } = await outcomesOf([long, `${long}a`, `${long}?`]);
  expect(Object.values(outcomes)).toEqual(["200", "414 uri_too_long", "414 uri_too_long"]);
  expect(linesAt(provider)).toHaveLength(1);
  expect(provider.received()).not.toContain(secretKey);
});
