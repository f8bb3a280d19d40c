import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { Integration_UseRecord, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Answering, apiKey, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

async function recorded(how: keyof typeof Integration_UseRecord, port: number, options: Options = {}) {
  const running = await startProxied(port, options);
  await running.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "here", useRecord: Integration_UseRecord[how] },
    updateMask: { paths: ["use_record"] },
  });
  const uses = () =>
    running.logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "a connection was used");
  /** The line of the next use, and no more than that. */
  const next = async (use: () => Promise<unknown>) => {
    const before = uses().length;
    await use();
    await expect.poll(() => uses().length).toBe(before + 1);
    const { time, level, msg, ...line } = uses()[before];
    expect([level, typeof time, msg]).toEqual(["info", "string", "a connection was used"]);
    return line;
  };
  const ask = (path: string, calling: Parameters<typeof call>[1] = {}) =>
    call(`${running.data}/proxy${path}`, {
      ...calling,
      headers: { ...running.proxyHeaders, ...calling.headers },
      agent: false,
    });
  return { running, uses, next, ask };
}

const common = {
  key: "secret-key",
  environment: "dev",
  integration: "here",
  provider: "here",
  connection: "ada",
  credentials: "apiKey",
  ms: expect.any(Number),
  retries: 0,
};

it("records a use with caller, connection, target and outcome, if enabled", async () => {
  const provider = await startProvider(ok);
  const { next, ask, uses, running } = await recorded("PATH", provider.port);
  const line = await next(() => ask("/people/ada?token=secret-query", { method: "POST", body: "hello" }));
  expect(line).toEqual({
    ...common,
    method: "POST",
    host: `127.0.0.1:${provider.port}`,
    path: "/people/ada",
    status: 200,
    outcome: "answered",
    bytes_up: 5,
    bytes_down: expect.any(Number),
  });
  const said = JSON.stringify({ line: "POST /people/ada?token=secret-query HTTP/1.1", body: "hello" });
  expect(line.bytes_down).toBe(said.length);

  const update = (useRecord: Integration_UseRecord) =>
    running.client(IntegrationService).updateIntegration({
      integration: { environment: "dev", key: "here", useRecord },
      updateMask: { paths: ["use_record"] },
    });
  await update(Integration_UseRecord.HOST);
  expect(await next(() => ask("/people/ada"))).not.toHaveProperty("path");
  await update(Integration_UseRecord.OFF);
  await ask("/people/ada");
  await sleep(50);
  expect(uses()).toHaveLength(2);
});

it("records no secrets, queries, fields or bodies", async () => {
  const provider = await startProvider((_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nX-Answer: canary-field\r\nContent-Length: 11\r\n\r\ncanary-body");
  });
  const { next, ask, running } = await recorded("PATH", provider.port);
  const path = `/with/${secretKey}/and/${apiKey}/in?canary-query=${apiKey}`;
  const line = await next(() =>
    ask(path, { method: "PUT", headers: { "x-mine": "canary-header" }, body: "canary-upload" }),
  );
  expect(line.path).toBe("/with/***/and/***/in");
  expect(provider.received()).toContain(path);
  expect(running.logged.join("")).not.toMatch(/canary/);
  for (const secret of [secretKey, apiKey]) expect(running.logged.join("")).not.toContain(secret);
});

it("records refusals with a known connection, and no others", async () => {
  const provider = await startProvider(ok);
  const { next, ask, uses } = await recorded("PATH", provider.port);
  const refused = await next(() => ask("/x", { headers: { "base-url-override": "https://evil.test" } }));
  expect(refused).toEqual({
    ...common,
    method: "GET",
    status: 403,
    outcome: "refused",
    reason: "host_not_allowed",
    bytes_up: 0,
    bytes_down: 0,
  });
  expect(await next(() => ask("/a%00"))).toMatchObject({ outcome: "refused", reason: "invalid_path" });
  expect(faultOf(await ask("/x", { headers: { "connection-id": "nobody" } }))).toBe("unknown_connection");
  expect(faultOf(await ask("/x", { headers: { authorization: "Bearer lk_unknown" } }))).toBe("unknown_key");
  await sleep(50);
  expect(uses()).toHaveLength(2);
});

/** By path: the ways in which a provider can answer. */
let busy = 0;
const doing: Answering = ({ line }, socket) => {
  const [, path = ""] = line.split(" ");
  if (path === "/gone") socket.destroy();
  else if (path === "/half") {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", () => socket.destroy());
  } else if (path === "/begun") socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  else if (path === "/busy" && busy++ < 2)
    socket.write("HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy");
  else if (path === "/no") socket.write("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno");
  else if (path !== "/silent") socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
};

it("records the outcome: answered, failed, cut by either side, and the number of attempts", async () => {
  const provider = await startProvider(doing);
  const { next, ask, running } = await recorded("HOST", provider.port);
  const parts = ({ outcome, reason, status, retries, bytes_up, bytes_down }: Record<string, unknown>) => [
    outcome,
    reason,
    status,
    retries,
    bytes_up,
    bytes_down,
  ];
  expect(parts(await next(() => ask("/no")))).toEqual(["answered", undefined, 404, 0, 0, 2]);
  expect(parts(await next(() => ask("/gone")))).toEqual(["failed", "provider_closed", 502, 0, 0, 0]);
  expect(parts(await next(() => ask("/half")))).toEqual(["cut by provider", undefined, 200, 0, 0, 4]);
  const retried = await next(() => ask("/busy", { method: "PUT", body: "abc", headers: { retries: "3" } }));
  expect(parts(retried)).toEqual(["answered", undefined, 200, 2, 3, 2]);

  const leaving = (path: string, seen: RegExp) => async () => {
    const wire = await openWire(running.data);
    wire.send(`GET /proxy${path} HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
    if (path === "/begun") await wire.until((text) => text.includes("half"));
    else await expect.poll(() => provider.received()).toMatch(seen);
    wire.socket.destroy();
  };
  expect(parts(await next(leaving("/begun", /begun/)))).toEqual(["cut by caller", undefined, 200, 0, 0, 4]);
  expect(parts(await next(leaving("/silent", /silent/)))).toEqual(["cut by caller", undefined, undefined, 0, 0, 0]);

  const here = await next(() => ask("/x", { method: "OPTIONS", headers: { "max-forwards": "0" } }));
  expect(parts(here)).toEqual(["answered here", undefined, 204, 0, 0, 0]);
  const large = await next(() => ask("/large", { method: "POST", body: Buffer.alloc(3_000_000) }));
  expect(parts(large)).toEqual(["answered", undefined, 200, 0, 3_000_000, 2]);
});

it("records a tunnel when it ends, with the bytes of its frames", async () => {
  const server = http.createServer();
  const sessions = new WebSocketServer({ server });
  sessions.on("connection", (session) => {
    session.on("message", (data) => session.send(Buffer.concat([data as Buffer, data as Buffer])));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions.clients) session.terminate();
    server.close();
  });
  const { next, running, uses } = await recorded("PATH", (server.address() as AddressInfo).port);
  const line = await next(async () => {
    const session = new WebSocket(`${running.data.replace("http:", "ws:")}/proxy/live?since=1`, {
      headers: running.proxyHeaders,
      perMessageDeflate: false,
    });
    await once(session, "open");
    session.send(Buffer.alloc(1_000));
    await once(session, "message");
    expect(uses()).toEqual([]);
    session.close();
    await once(session, "close");
  });
  // A frame of 1,000 bytes has a head of 4 and a mask of 4; a close without a reason is 2, masked 6.
  expect(line).toMatchObject({
    ...common,
    method: "GET",
    path: "/live",
    status: 101,
    outcome: "answered",
    bytes_up: 1_000 + 8 + 6,
  });
  expect(line.bytes_down).toBe(2_000 + 4 + 2);
});

it("is enabled by the configuration file as well", async () => {
  const provider = await startProvider(ok);
  const file = `
environments: [{ name: prod, keys: [{ id: app, key: { env: APP_KEY } }] }]
integrations: [{ environment: prod, key: kept, provider: there, use_record: host }]
providers:
  - { name: there, display_name: There, api_key: { header: x-api-key }, proxy: { base_url: "https://127.0.0.1:${provider.port}" } }
`;
  const key = "lk_a-key-of-the-environment-prod";
  const { data, rest, logged } = await startProxied(provider.port, {
    files: { "/latchkey.yaml": file },
    env: { LATCHKEY_CONFIG: "/latchkey.yaml", APP_KEY: key },
  });
  const body = {
    provider_config_key: "kept",
    connection_id: "ada",
    credentials: { type: "API_KEY", apiKey: "some-key" },
  };
  expect((await rest("POST", "/connections", { body, key })).status).toBe(201);
  const headers = { authorization: `Bearer ${key}`, "provider-config-key": "kept", "connection-id": "ada" };
  expect((await call(`${data}/proxy/x`, { headers })).status).toBe(200);
  await expect.poll(() => logged.join("")).toContain('"key":"app","environment":"prod","integration":"kept"');
});
