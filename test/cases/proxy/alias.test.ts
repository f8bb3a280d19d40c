import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { ConfigMistakes, parseConfig } from "../../../src/config/config.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { type Answering, apiKey, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { head, keyWith, openWire, statusOf } from "../../support/sidecar/door.ts";
import { adminKey, secretKey, testVariables } from "../../support/sidecar/harness.ts";

/** A connection's own address, for programs that can set neither headers nor a path. */

const alias = "{ name: here-ada, environment: dev, integration: here, connection: ada, listen: '127.0.0.1:0' }";

async function startAliased(answer: Answering = ok, { more = "", provider = {}, env = {} } = {}) {
  const origin = await startProvider(answer);
  const running = await startProxied(origin.port, {
    provider,
    files: { "/config": `aliases: [${alias}${more}]` },
    env: { LATCHKEY_CONFIG: "/config", ...env },
  });
  const own = running.sidecar.aliases["here-ada"] ?? "";
  const say = async (...lines: readonly string[]) => {
    const wire = await openWire(own);
    wire.send(head(...lines, "Connection: close"));
    return wire.ended;
  };
  return { ...running, origin, own, say };
}

const bearer = { authorization: `Bearer ${secretKey}` };
const errorOf = (answer: string) => /^latchkey-error: (.*)\r$/im.exec(answer)?.[1];

it("forwards everything on its listener to the connection's provider, with the path unchanged", async () => {
  const { own, origin } = await startAliased();
  for (const target of ["/", "/v1/charges?limit=3&x=%41", "/proxy/drive", "/connections", "/health", "//a/b?"]) {
    const answer = await fetch(`${own}${target}`, { headers: bearer });
    expect(await answer.json()).toEqual({ line: `GET ${target} HTTP/1.1`, body: "" });
  }
  const sent = await fetch(`${own}/v1/charges`, { method: "POST", headers: bearer, body: "amount=1" });
  expect(await sent.json()).toEqual({ line: "POST /v1/charges HTTP/1.1", body: "amount=1" });
  const requests = origin.connections.flatMap((one) => one.requests());
  expect(requests).toHaveLength(7);
  for (const { fields } of requests) {
    expect(fields.filter(([name]) => name === "x-api-key")).toEqual([["x-api-key", apiKey]]);
    expect(fields.filter(([name]) => name === "host")).toEqual([["host", `127.0.0.1:${origin.port}`]]);
  }
  expect(origin.received()).not.toContain(secretKey);
});

it("takes OPTIONS and HEAD for the provider's", async () => {
  const { own } = await startAliased((request, socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nX-Line: ${request.line}\r\nContent-Length: 0\r\n\r\n`);
  });
  for (const method of ["OPTIONS", "HEAD"]) {
    const answer = await fetch(`${own}/v1`, { method, headers: bearer });
    expect(answer.headers.get("x-line")).toBe(`${method} /v1 HTTP/1.1`);
  }
});

it.each([
  ["latchkey-key", secretKey],
  ["proxy-authorization", `Bearer ${secretKey}`],
  ["proxy-authorization", `Basic ${Buffer.from(`${secretKey}:`).toString("base64")}`],
  ["authorization", `Bearer ${secretKey}`],
  ["authorization", `token ${secretKey}`],
  ["authorization", `Basic ${Buffer.from(`${secretKey}:`).toString("base64")}`],
  ["authorization", `Basic ${Buffer.from(`:${secretKey}`).toString("base64")}`],
  ["authorization", `Basic ${Buffer.from(`${secretKey}:x`).toString("base64")}`],
])("takes the caller's key from %s: %s", async (name, value) => {
  const { say, origin } = await startAliased();
  expect(statusOf(await say("GET /v1 HTTP/1.1", "Host: localhost", `${name}: ${value}`))).toBe(200);
  expect(origin.received()).not.toContain(secretKey);
  expect(origin.received()).not.toContain(value);
});

it("accepts the first key, and forwards none of the others", async () => {
  const { say, origin } = await startAliased();
  const lines = [`latchkey-key: ${secretKey}`, "Proxy-Authorization: Bearer other", "Authorization: Bearer third"];
  expect(statusOf(await say("GET /v1 HTTP/1.1", "Host: localhost", ...lines))).toBe(200);
  expect(origin.received()).not.toMatch(/other|third/);
  const turned = [`Authorization: Bearer ${secretKey}`, "Proxy-Authorization: Bearer other"];
  expect(errorOf(await say("GET /v1 HTTP/1.1", "Host: localhost", ...turned))).toBe("unknown_key");
});

it("still asks for a key, for the scope and for the environment", async () => {
  const running = await startAliased();
  const { say, client, origin } = running;
  await client(EnvironmentService).createEnvironment({ name: "other" });
  const { secret: foreign } = await client(EnvironmentService).createKey({
    environment: "other",
    scopes: [Scope.PROXY],
  });
  const reader = await keyWith(running, Scope.CONNECTIONS_READ);
  const asWith = (line: string) => say("GET /v1 HTTP/1.1", "Host: localhost", line);
  const cases = [
    ["X-Nothing: 1", 401, "missing_auth_header"],
    ["Authorization: Digest x", 401, "malformed_auth_header"],
    ["Authorization: Bearer lk_wrong", 401, "unknown_key"],
    [`Authorization: Bearer ${reader}`, 403, "missing_scope"],
    [`Authorization: Bearer ${adminKey}`, 403, "missing_scope"],
    [`Authorization: Bearer ${foreign}`, 404, "unknown_connection"],
  ] as const;
  for (const [line, status, code] of cases) {
    const answer = await asWith(line);
    expect([statusOf(answer), errorOf(answer)]).toEqual([status, code]);
  }
  expect(origin.connections).toHaveLength(0);
});

it("uses no other connection, whatever the headers say", async () => {
  const { own, origin } = await startAliased();
  const headers = { ...bearer, "provider-config-key": "elsewhere", "connection-id": "bob" };
  expect((await fetch(`${own}/v1`, { headers })).status).toBe(200);
  expect(origin.received().toLowerCase()).not.toMatch(/connection-id|provider-config-key/);
  expect(origin.received()).toContain(apiKey);
});

it("applies the rules of every listener to its own", async () => {
  const { say, origin } = await startAliased();
  const key = `Authorization: Bearer ${secretKey}`;
  const cases = [
    [["GET /v1 HTTP/1.1", "Host: evil.example", key], 421, "misdirected_request"],
    [["GET /v1 HTTP/1.1", "Host: localhost", key, "Origin: https://evil.example"], 403, "origin_not_allowed"],
    [["GET /../v1 HTTP/1.1", "Host: localhost", key], 400, "invalid_path"],
    [["TRACE /v1 HTTP/1.1", "Host: localhost", key], 405, "method_not_allowed"],
    [["GET http://evil.example/v1 HTTP/1.1", "Host: evil.example", key], 403, "host_not_allowed"],
    [["GET /v1 HTTP/1.1", "Host: localhost", key, "Base-Url-Override: https://evil.example"], 403, "host_not_allowed"],
    [["GET /v1 HTTP/1.1", "Host: localhost", key, "latchkey-key: a", "Latchkey-Key: b"], 400, "duplicate_header"],
    [["OPTIONS * HTTP/1.1", "Host: localhost", key], 400, "invalid_path"],
  ] as const;
  for (const [lines, status, code] of cases) {
    const answer = await say(...lines);
    expect([statusOf(answer), errorOf(answer)]).toEqual([status, code]);
  }
  expect(origin.connections).toHaveLength(0);
  expect(statusOf(await say("GET /v1 HTTP/1.1", "Host: here-ada.localhost:9", key))).toBe(200);
});

it("is reachable by its name on the data listener, where names resolve", async () => {
  const { data, origin, raw } = await startAliased(ok, {
    more: ", { name: by-name, environment: dev, integration: here, connection: ada }",
  });
  const key = `Authorization: Bearer ${secretKey}`;
  for (const host of ["here-ada.localhost", "here-ada.localhost:3003", "HERE-ADA.LocalHost", "by-name.localhost"]) {
    const answer = await raw(head("GET /connections?a=b HTTP/1.1", `Host: ${host}`, key));
    expect(answer).toContain('"GET /connections?a=b HTTP/1.1"');
  }
  expect(origin.received()).not.toContain(secretKey);
  expect(errorOf(await raw(head("GET /v1 HTTP/1.1", "Host: other.localhost", key)))).toBe("misdirected_request");
  expect(errorOf(await raw(head("GET /v1 HTTP/1.1", "Host: here-ada.localhost.evil.example", key)))).toBe(
    "misdirected_request",
  );
  const foreignPage = head("GET /v1 HTTP/1.1", "Host: here-ada.localhost", key, "Sec-Fetch-Site: cross-site");
  expect(errorOf(await raw(foreignPage))).toBe("origin_not_allowed");
  // Other paths of the listener are unchanged.
  expect((await fetch(`${data}/connections`, { headers: bearer })).headers.get("content-type")).toMatch(/json/);
});

it("goes by its name though the allowed hosts are named one by one", async () => {
  const { raw } = await startAliased(ok, { env: { LATCHKEY_ALLOWED_HOSTS: "127.0.0.1" } });
  const key = `Authorization: Bearer ${secretKey}`;
  expect(statusOf(await raw(head("GET /v1 HTTP/1.1", "Host: here-ada.localhost", key)))).toBe(200);
  expect(statusOf(await raw(head("GET /v1 HTTP/1.1", "Host: localhost", key)))).toBe(421);
});

it("keeps a redirect of the provider's on its own address, without a prefix", async () => {
  const { own, origin } = await startAliased((request, socket) => {
    const to = request.line.includes("/away")
      ? "https://elsewhere.example/x"
      : `https://127.0.0.1:${origin.port}/next?a=b`;
    socket.write(`HTTP/1.1 302 Found\r\nLocation: ${to}\r\nContent-Length: 0\r\n\r\n`);
  });
  const locationOf = async (path: string) =>
    (await fetch(`${own}${path}`, { headers: bearer, redirect: "manual" })).headers.get("location");
  expect(await locationOf("/here")).toBe("/next?a=b");
  expect(await locationOf("/away")).toBe("https://elsewhere.example/x");
});

it("sends by prefix to the other hosts of its provider", async () => {
  const files = await startProvider();
  const port = files.port;
  const mail = await startProvider();
  const allowed = `http://127.0.0.1:${port},http://127.0.0.1:${mail.port}`;
  const { sidecar } = await startProxied(port, {
    provider: {
      proxy: {
        baseUrl: `https://127.0.0.1:${port}/base`,
        hosts: [{ prefix: "/gmail/", origin: `https://127.0.0.1:${mail.port}` }],
      },
    },
    files: { "/config": `aliases: [${alias}]` },
    env: { LATCHKEY_CONFIG: "/config", LATCHKEY_ALLOW_PRIVATE: allowed },
  });
  const own = sidecar.aliases["here-ada"];
  await fetch(`${own}/gmail/v1/users/me`, { headers: bearer });
  await fetch(`${own}/drive/v3`, { headers: bearer });
  expect(mail.received()).toMatch(/^GET \/gmail\/v1\/users\/me HTTP/);
  expect(files.received()).toMatch(/^GET \/base\/drive\/v3 HTTP/);
});

it("may listen on a Unix socket", async () => {
  const folder = await mkdtemp(join(tmpdir(), "latchkey-alias-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, "ada.sock");
  const { origin } = await startAliased(ok, {
    more: `, { name: by-file, environment: dev, integration: here, connection: ada, listen: 'unix:${path}' }`,
  });
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const options = { socketPath: path, path: "/v1", headers: { ...bearer, host: "localhost" } };
    http.get(options, (answer) => resolve(answer.resume().statusCode)).on("error", reject);
  });
  expect(status).toBe(200);
  expect(origin.received()).toContain(apiKey);
});

it("reports that its connection does not exist, and finds it once it does", async () => {
  const { sidecar, rest } = await startAliased(ok, {
    more: ", { name: later, environment: dev, integration: here, connection: eve, listen: '127.0.0.1:0' }",
  });
  const own = sidecar.aliases["later"];
  const before = await fetch(`${own}/v1`, { headers: bearer });
  expect([before.status, before.headers.get("latchkey-error")]).toEqual([404, "unknown_connection"]);
  const body = {
    provider_config_key: "here",
    connection_id: "eve",
    credentials: { type: "API_KEY", apiKey: "of-eve" },
  };
  expect((await rest("POST", "/connections", { body })).status).toBe(201);
  expect((await fetch(`${own}/v1`, { headers: bearer })).status).toBe(200);
});

it("stops with the sidecar", async () => {
  const { own, stop } = await startAliased();
  await stop();
  await expect(fetch(`${own}/v1`, { headers: bearer })).rejects.toThrow();
});

it("refuses aliases that conflict with each other or with a listener", () => {
  const mistakesIn = (file: string, env = {}) => {
    const variables = { ...testVariables("/x"), LATCHKEY_CONFIG: "/config", ...env };
    try {
      parseConfig({ env: variables, files: { read: () => ({ text: file, mode: 0o600 }) } });
    } catch (error) {
      if (error instanceof ConfigMistakes) return error.mistakes;
      throw error;
    }
    return [];
  };
  const one = (name: string, listen: string) =>
    `{ name: ${name}, environment: dev, integration: a, connection: b, listen: '${listen}' }`;
  expect(mistakesIn(`aliases: [${one("a", ":0")}, ${one("b", ":0")}]`)).toEqual([]);
  expect(mistakesIn(`aliases: [${one("a", ":0")}, ${one("a", ":0")}]`)).toEqual([
    expect.stringMatching(/^\/config:1:\d+: the alias "a" is a duplicate \(first at line 1\)$/),
  ]);
  expect(mistakesIn(`aliases: [${one("a", ":4001")}, ${one("b", "127.0.0.1:4001")}]`)).toEqual([
    'the alias "a" and the alias "b" would both listen on 127.0.0.1:4001',
  ]);
  expect(mistakesIn(`aliases: [${one("a", ":4002")}]`, { LATCHKEY_DATA_LISTEN: ":4002" })).toEqual([
    'the data door and the alias "a" would both listen on 127.0.0.1:4002',
  ]);
  expect(mistakesIn(`aliases: [${one("a", "nowhere")}]`)).toEqual([
    '/config:1:71: aliases[0].listen: "nowhere" must be host:port, :port or unix:/path',
  ]);
  expect(mistakesIn("aliases: [{ name: A.b, environment: dev, integration: a, connection: b }]")).toEqual([
    "/config:1:13: aliases[0].name: must be lower-case letters, digits and dashes",
  ]);
});
