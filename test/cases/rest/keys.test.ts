import { expect, it, onTestFinished } from "vitest";
import { restRoutes } from "../../../src/data-plane/api/rest.ts";
import { createBrowserCookies } from "../../../src/data-plane/connect/browser-cookie.ts";
import { createConnectSockets } from "../../../src/data-plane/connect/connect-sockets.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { answersIn, head, keyWith, openWire, say, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection, secretKey } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const close = "connection: close";
/** The status of a request with this raw authorization header. */
const statusWith = async (authorization: string) =>
  statusOf(await say(running().data, head("GET /connections HTTP/1.1", "host: localhost", authorization, close)));

it("R01 asks for a key on every route that needs one", async () => {
  const { rest, sidecar, world, data } = running();
  const sockets = createConnectSockets({
    cookies: createBrowserCookies(() => data),
    outcomes: sidecar.broker.outcomes,
    world,
  });
  onTestFinished(() => sockets.close());
  const keyed = restRoutes({
    broker: sidecar.broker,
    sockets,
    publicUrl: () => data,
    proxyAddress: () => undefined,
  }).filter(({ scope }) => scope !== undefined);
  expect(keyed.length).toBeGreaterThan(30);
  for (const { method, path } of keyed) {
    const url = path.replaceAll(/:\w+/g, "x").replace("*", "x");
    const answer = await fetch(`${running().data}${url}`, { method: method === "ANY" ? "PUT" : method });
    const { error } = (await answer.json()) as { error: { code: string } };
    expect({ method, path, status: answer.status, code: error.code }).toEqual({
      method,
      path,
      status: 401,
      code: "missing_auth_header",
    });
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    expect(answer.headers.get("latchkey-error")).toBe("missing_auth_header");
  }
  expect((await rest("GET", "/health")).body).toEqual({ result: "ok" });
});

it.each(["content-length: 1073741824", "transfer-encoding: chunked"])(
  "R01 reads nothing of an unauthenticated body beyond the socket's buffer (%s)",
  async (framing) => {
    const wire = await openWire(running().data);
    wire.send(head("POST /connections HTTP/1.1", "host: localhost", "content-type: application/json", framing));
    // Sixty-four mebibytes: far more than the kernel holds for two sockets.
    const chunk = Buffer.alloc(1024 * 1024, "x");
    for (let i = 0; i < 64; i += 1) {
      if (framing.startsWith("transfer")) wire.send("100000\r\n");
      wire.send(chunk);
      if (framing.startsWith("transfer")) wire.send("\r\n");
    }
    expect(statusOf(await wire.ended)).toBe(401);
    const taken = wire.socket.bytesWritten - wire.socket.writableLength;
    expect(taken).toBeLessThan(32 * 1024 * 1024);
  },
);

it("R01 checks the head before it accepts a body (Expect: 100-continue)", async () => {
  const wanting = ["host: localhost", "content-type: application/json", "expect: 100-continue"];
  const stranger = await say(running().data, head("POST /connections HTTP/1.1", ...wanting, "content-length: 2"));
  expect(stranger).not.toContain("100 Continue");
  expect(statusOf(stranger)).toBe(401);

  const authorization = `authorization: Bearer ${secretKey}`;
  const tooLarge = ["POST /connections HTTP/1.1", ...wanting, authorization, "content-length: 600000"];
  const refused = await say(running().data, head(...tooLarge));
  expect(refused).not.toContain("100 Continue");
  expect(statusOf(refused)).toBe(413);

  const wire = await openWire(running().data);
  wire.send(head("POST /connections HTTP/1.1", ...wanting, authorization, close, "content-length: 2"));
  await wire.until((text) => text.startsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  wire.send("{}");
  expect(await wire.ended).toMatch(/\r\n\r\nHTTP\/1\.1 400 Bad Request\r\n/);
});

it("R01 keeps the connection of a caller whose request was small and wrong", async () => {
  const wire = await openWire(running().data);
  wire.send(head("POST /connections HTTP/1.1", "host: localhost", "content-length: 2"));
  wire.send("{}");
  wire.send(head("GET /health HTTP/1.1", "host: localhost", close));
  const text = await wire.ended;
  expect(answersIn(text)).toBe(2);
  expect(text).toMatch(/^HTTP\/1\.1 401 [\s\S]*HTTP\/1\.1 200 OK\r\n/);
});

it("R02 takes the scheme in any case", async () => {
  expect(await statusWith(`authorization: bEaReR ${secretKey}`)).toBe(200);
  expect(await statusWith(`AUTHORIZATION: BEARER ${secretKey}`)).toBe(200);
});

it.each([
  ["two blanks", `Bearer  ${secretKey}`],
  ["a scheme alone", "Bearer"],
  ["a scheme and a blank", "Bearer "],
  ["Basic", `Basic ${Buffer.from(`${secretKey}:`).toString("base64")}`],
  ["the key alone", secretKey],
  ["nothing", ""],
  ["a tab", `Bearer\t${secretKey}`],
  ["a blank within", `Bearer ${secretKey} x`],
  ["two keys in one line", `Bearer ${secretKey}, Bearer ${secretKey}`],
  ["a blank of another kind behind the key", `Bearer ${secretKey}\u00a0`],
  ["quotes", `Bearer "${secretKey}"`],
])("R02 takes no key with %s", async (_name, authorization) => {
  expect(await statusWith(`authorization: ${authorization}`)).toBe(401);
});

it("R02 ignores spaces after the key (RFC 9110, section 5.5)", async () => {
  expect(await statusWith(`authorization: Bearer ${secretKey} \t`)).toBe(200);
});

it("R03 refuses a second Authorization line, whichever of the two is right", async () => {
  for (const [first, second] of [
    [secretKey, "wrong"],
    ["wrong", secretKey],
    [secretKey, secretKey],
  ]) {
    const lines = [`authorization: Bearer ${first}`, `Authorization: Bearer ${second}`];
    const answer = await say(running().data, head("GET /connections HTTP/1.1", "host: localhost", ...lines, close));
    expect(statusOf(answer)).toBe(400);
    expect(answer).toContain("latchkey-error: duplicate_header");
  }
});

it("R04 refuses every wrong key, whatever its length", async () => {
  const { rest } = running();
  for (const key of [`${secretKey.slice(0, -1)}X`, secretKey.slice(0, -1), `${secretKey}x`, "x", "x".repeat(8_000)]) {
    const { status, body } = await rest("GET", "/connections", { key });
    expect({ status, code: body.error.code }).toEqual({ status: 401, code: "unknown_key" });
    expect(body.error.message).not.toContain(key.slice(0, 12));
  }
});

it("R04 does not take in a head of a megabyte, for the sake of the key in it", async () => {
  const long = `authorization: Bearer ${"x".repeat(1024 * 1024)}`;
  const answer = await say(running().data, head("GET /connections HTTP/1.1", "host: localhost", long));
  expect(statusOf(answer)).toBe(431);
  expect(answer).toContain("latchkey-error: headers_too_large");
});

it("R04 takes as long to refuse a key that is nearly right as one that is not", async () => {
  const { rest } = running();
  const keys = { near: `${secretKey.slice(0, -1)}X`, far: "Z".repeat(secretKey.length), short: "Z" };
  const spent = Object.fromEntries(Object.keys(keys).map((name) => [name, [] as number[]]));
  for (let i = 0; i < 400; i += 1) {
    for (const [name, key] of Object.entries(keys)) {
      const since = performance.now();
      await rest("GET", "/connections", { key });
      spent[name]?.push(performance.now() - since);
    }
  }
  const medians = Object.values(spent).map((all) => all.sort((a, b) => a - b)[all.length / 2] ?? 0);
  // A comparison that ends at the first difference is nanoseconds apart; only one that is badly wrong shows here.
  expect(Math.max(...medians) - Math.min(...medians)).toBeLessThan(Math.max(2, 2 * Math.min(...medians)));
});

it("R05 limits a key to its scopes", async () => {
  const { rest } = running();
  await rest("POST", "/connections", { body: keyedConnection("scoped") });
  const at = "/connections/scoped?provider_config_key=keyed";
  const [proxy, read, readWithCredentials, write, integrations] = [
    await keyWith(running(), Scope.PROXY),
    await keyWith(running(), Scope.CONNECTIONS_READ),
    await keyWith(running(), Scope.CONNECTIONS_READ, Scope.CREDENTIALS_READ),
    await keyWith(running(), Scope.CONNECTIONS_WRITE),
    await keyWith(running(), Scope.INTEGRATIONS_READ),
  ];
  const create = (key: string) => rest("POST", "/connections", { key, body: keyedConnection("by-scope") });

  expect((await create(proxy)).status).toBe(403);
  expect((await rest("GET", at, { key: proxy })).status).toBe(403);
  expect((await create(read)).status).toBe(403);
  expect((await rest("GET", at, { key: read })).body.credentials).toEqual({});
  expect((await rest("GET", at, { key: readWithCredentials })).body.credentials).toEqual({
    type: "API_KEY",
    apiKey: "key-of-scoped",
  });
  const created = await create(write);
  expect({ status: created.status, credentials: created.body.credentials }).toEqual({ status: 201, credentials: {} });
  expect((await rest("GET", at, { key: write })).status).toBe(403);
  expect((await rest("DELETE", at, { key: read })).status).toBe(403);
  expect((await rest("GET", "/integrations", { key: read })).status).toBe(403);
  expect((await rest("GET", "/integrations/keyed", { key: integrations })).status).toBe(200);
  expect((await rest("GET", "/integrations/keyed?include=credentials", { key: integrations })).status).toBe(403);
  expect((await rest("PATCH", "/integrations/keyed", { key: integrations, body: {} })).status).toBe(403);
  const refused = await create(proxy);
  expect(refused.body.error.code).toBe("missing_scope");
  expect(refused.body.error.message).toContain("connections:write");
});

it("R05 opens no environment with a key of the control plane, nor another environment with a key of one", async () => {
  const { rest, client } = running();
  expect((await rest("GET", "/connections", { key: adminKey })).status).toBe(403);

  await client(EnvironmentService).createEnvironment({ name: "other" });
  const { secret: key } = await client(EnvironmentService).createKey({ environment: "other", scopes: [] });
  await rest("POST", "/connections", { body: keyedConnection("mine") });
  expect((await rest("GET", "/connections", { key })).body).toEqual({ connections: [] });
  expect((await rest("GET", "/connections/mine?provider_config_key=keyed", { key })).status).toBe(404);
  expect((await rest("DELETE", "/connections/mine?provider_config_key=keyed", { key })).status).toBe(404);
  const led = await rest("POST", "/connections", { key, body: keyedConnection("led", { environment: "dev" }) });
  expect({ status: led.status, code: led.body.error.code }).toEqual({ status: 403, code: "missing_scope" });
});
