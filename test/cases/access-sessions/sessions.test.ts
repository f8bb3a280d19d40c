import { once } from "node:events";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { services } from "../../../src/control-plane/services/services.ts";
import { Scope, scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { AccessSessionService, AccessSessionState } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startProxied } from "../../support/peers/provider.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { type Face, faces, type SessionSidecar, startForSessions, unhurried } from "./faces.ts";

const ofAda = { connections: [{ integration: "here", id: "ada" }] };

async function sessionOf(running: SessionSidecar, more: object = {}): Promise<string> {
  const { status, body } = await running.rest("POST", "/access-sessions", { body: { limits: ofAda, ...more } });
  if (status !== 201) throw new Error(`no session was made: ${JSON.stringify(body)}`);
  return body.data.token;
}

async function limitedKey(
  running: SessionSidecar,
  { limits = ofAda }: { readonly limits?: object; readonly scopes?: readonly string[] } = {},
) {
  const { secret } = await running.client(EnvironmentService).createKey({ environment: "dev", limits });
  return secret;
}

const denied = [403, "not_in_session"];
const everyFace = Object.entries(faces) as [string, Face][];

describe.each([
  ["an access session", sessionOf],
  ["a limited key", limitedKey],
] as const)("%s", (_, tokenOf) => {
  it("is admitted on its connection and refused on any other, over every face", async () => {
    const running = await startForSessions();
    const token = await tokenOf(running);
    for (const [name, ask] of everyFace) {
      expect([name, ...(await ask(running, token))]).toEqual([name, 200, null]);
      expect([name, ...(await ask(running, token, { connection: "bob" }))]).toEqual([name, ...denied]);
      if (name === "alias") continue;
      expect([name, ...(await ask(running, token, { connection: "nobody" }))]).toEqual([name, ...denied]);
    }
  });

  it("is held to methods, paths and hosts over every face", async () => {
    const running = await startForSessions();
    const limits = { ...ofAda, methods: ["GET"], paths: ["/repos/*/issues"] };
    const token = await tokenOf(running, { limits });
    for (const [name, ask] of everyFace) {
      const found = async (request: object) => [name, ...(await ask(running, token, request))];
      expect(await found({ path: "/repos/ada/issues" })).toEqual([name, 200, null]);
      expect(await found({ path: "/repos/ada/issues?a=/../b" })).toEqual([name, 200, null]);
      for (const path of ["/repos/ada", "/repos/a%2fb/issues", "/repos//issues", "/Repos/ada/issues"]) {
        expect(await found({ path })).toEqual([name, ...denied]);
      }
      if (name === "WebSocket") continue;
      expect(await found({ path: "/repos/ada/issues", method: "POST" })).toEqual([name, ...denied]);
    }
    const elsewhere = await tokenOf(running, { limits: { ...ofAda, hosts: ["api.example.com"] } });
    for (const [name, ask] of everyFace) {
      expect([name, ...(await ask(running, elsewhere))]).toEqual([name, ...denied]);
    }
  });

  it("may call only the methods and routes that check limits, and reads no credentials", async () => {
    const running = await startForSessions();
    const scopes: readonly Scope[] = [Scope.PROXY, Scope.SYNCS, Scope.CONNECTIONS_READ];
    const token = await tokenOf(running, { scopes: ["proxy", "syncs", "connections:read"] });
    const open = new Set([
      "GetCaller",
      "GetConnection",
      "RunAction",
      "SendRequest",
      "GetCurrentAccessSession",
      "GetAuthority",
      "GetApproval",
      "ListApprovals",
    ]);
    const ofKeys = new Set(["GetAccessSession", "ListAccessSessions"]);
    const found = await Promise.all(
      services.flatMap(({ methods }) =>
        methods.map(async (method) => {
          const needed = getOption(method, scope);
          const has = needed === Scope.UNSPECIFIED || scopes.includes(needed);
          const mayCall = open.has(method.name) || ofKeys.has(method.name);
          const wanted = has ? (mayCall ? "invalid_body" : "not_in_session") : "missing_scope";
          const code = await judged(running.control, method, token);
          return code === wanted ? undefined : `${method.parent.name}/${method.name}: ${code}, not ${wanted}`;
        }),
      ),
    );
    expect(found.filter((one) => one !== undefined)).toEqual([]);

    const shown = await running.rest("GET", "/connections/ada?provider_config_key=here", { key: token });
    expect([shown.status, shown.body.credentials]).toEqual([200, {}]);
    for (const path of ["/connections/bob?provider_config_key=here", "/connections", "/integrations"]) {
      const { body } = await running.rest("GET", path, { key: token });
      expect([path, body.error.code]).toEqual([path, path === "/integrations" ? "missing_scope" : "not_in_session"]);
    }
  });
});

/** Sends a body that no method can read: the head is judged first. Returns our name of the error. */
async function judged(control: string, method: DescMethod, token: string): Promise<string> {
  const isUnary = method.methodKind === "unary";
  const path = `/${method.parent.typeName}/${method.name}`;
  const body = isUnary ? Buffer.from("?") : Buffer.from([0, 0, 0, 0, 1, 63]);
  const headers = {
    "content-type": isUnary ? "application/json" : "application/connect+json",
    authorization: `Bearer ${token}`,
  };
  const found = await streamed(await openSession(control), path, { headers, body });
  const ofHead = found.headers["latchkey-error"];
  return typeof ofHead === "string" ? ofHead : (/"latchkey-error":\["(\w+)"\]/.exec(found.body)?.[1] ?? found.body);
}

it("shows a session to its creator and to itself, and ends it for every face at once", async () => {
  const running = await startForSessions();
  const token = await sessionOf(running, { label: "nightly", budget: 1_000, expires_in: 60 });
  const { body } = await running.rest("GET", "/access-sessions/current", { key: token });
  expect(body.data).toMatchObject({ state: "active", label: "nightly", budget: 1_000, created_by: "secret-key" });
  expect(JSON.stringify(body)).not.toContain(token);
  const { id } = body.data;
  const listed = await running.rest("GET", "/access-sessions");
  expect(listed.body.sessions.map((one: { id: string }) => one.id)).toEqual([id]);
  for (const [method, path] of [
    ["GET", "/access-sessions"],
    ["GET", `/access-sessions/${id}`],
    ["DELETE", `/access-sessions/${id}`],
    ["POST", "/access-sessions"],
  ] as const) {
    const own = await running.rest(method, path, { key: token, ...(method === "POST" && { body: { limits: ofAda } }) });
    expect([method, path, own.status]).toEqual([method, path, 403]);
  }

  const stream = await fetch(`${running.data}/proxy/events`, {
    headers: { authorization: `Bearer ${token}`, "provider-config-key": "here", "connection-id": "ada" },
  });
  const socket = new WebSocket(`${running.data.replace("http", "ws")}/proxy/x`, {
    headers: { authorization: `Bearer ${token}`, "provider-config-key": "here", "connection-id": "ada" },
  });
  const closed = new Promise((resolve) => socket.on("close", resolve));
  await new Promise((resolve) => socket.on("open", resolve));

  const ended = await running.rest("DELETE", `/access-sessions/${id}`);
  expect(ended.body.data).toMatchObject({ id, state: "ended", ended_by: "secret-key" });
  for (const [name, ask] of everyFace) {
    expect([name, ...(await ask(running, token))]).toEqual([name, 401, "unknown_key"]);
  }
  // Cut, not completed.
  await expect(stream.text()).rejects.toThrow();
  await closed;
  const later = await running.rest("GET", "/access-sessions?state=ended");
  expect(later.body.sessions[0]).toMatchObject({ id, state: "ended" });
  expect((await running.rest("DELETE", `/access-sessions/${id}`)).status).toBe(200);
});

it("cuts a gRPC call that is still sending when its session ends", async () => {
  const provider = http2.createServer();
  provider.listen(0, "127.0.0.1");
  await once(provider, "listening");
  onTestFinished(() => void provider.close());
  // Never answers.
  const arrived = new Promise<http2.ServerHttp2Stream>((resolve) => provider.on("stream", resolve));
  const running = await startProxied((provider.address() as AddressInfo).port);
  const { body } = await running.rest("POST", "/access-sessions", { body: { limits: ofAda } });
  const client = await openSession(running.data);
  const call = client.request({
    ":method": "POST",
    ":path": "/proxy/files.Files/Upload",
    "content-type": "application/grpc",
    te: "trailers",
    ...{ authorization: `Bearer ${body.data.token}`, "provider-config-key": "here", "connection-id": "ada" },
  });
  call.on("error", () => {}).write(Buffer.from([0, 0, 0, 0, 0]));
  const there = await arrived;
  there.on("error", () => {});
  await running.rest("DELETE", `/access-sessions/${body.data.id}`);
  await Promise.all([call, there].map((one) => one.closed || once(one, "close")));
});

it("ends with its time, and with the key that has created it", async () => {
  let now = Date.now();
  const running = await startForSessions({ now: () => now });
  const ask = faces["/proxy"] as Face;
  const token = await sessionOf(running, { expires_in: 60 });
  expect(await ask(running, token)).toEqual([200, null]);
  now += 61_000;
  expect(await ask(running, token)).toEqual([401, "unknown_key"]);
  await running.sidecar.broker.keepHouse();
  const { body } = await running.rest("GET", "/access-sessions?state=ended");
  expect(body.sessions).toMatchObject([{ state: "expired", ended_by: null }]);
  now += 8 * 86_400_000;
  await running.sidecar.broker.keepHouse();
  expect((await running.rest("GET", "/access-sessions?state=ended")).body.sessions).toEqual([]);

  const keys = running.client(EnvironmentService);
  const { secret } = await keys.createKey({
    environment: "dev",
    id: "maker",
    scopes: [Scope.PROXY, Scope.CONNECTIONS_WRITE],
  });
  const made = await running.rest("POST", "/access-sessions", { key: secret, body: { limits: ofAda } });
  expect(await ask(running, made.body.data.token)).toEqual([200, null]);
  await keys.revokeKey({ id: "maker" });
  await expect.poll(() => ask(running, made.body.data.token)).toEqual([401, "unknown_key"]);
});

it("gives a session nothing that its creator lacks", async () => {
  const running = await startForSessions();
  const keys = running.client(EnvironmentService);
  const limits = { ...ofAda, paths: ["/repos/**"], methods: ["GET", "POST"] };
  const scopes = [Scope.PROXY, Scope.CONNECTIONS_WRITE, Scope.CONNECTIONS_READ];
  const { secret } = await keys.createKey({ environment: "dev", id: "narrow", limits, scopes });
  const create = async (body: object) => {
    const { status, body: made } = await running.rest("POST", "/access-sessions", { key: secret, body });
    return [status, made.error?.message ?? made.data.limits];
  };
  // An empty field takes the limits of the key.
  expect(await create({ limits: { methods: ["GET"] } })).toEqual([201, { ...limits, methods: ["GET"] }]);
  const beyond = async (more: object) => expect((await create(more))[0], JSON.stringify(more)).toBe(400);
  await beyond({ limits: { connections: [{ integration: "here", id: "bob" }] } });
  await beyond({ limits: { connections: [{ integration: "here" }] }, allow_several: true });
  await beyond({ limits: { paths: ["/**"] } });
  await beyond({ limits: { methods: ["DELETE"] } });
  await beyond({ limits: {}, scopes: ["syncs"] });
  await beyond({ limits: {}, scopes: ["credentials:read"] });
  await beyond({ limits: {}, expires_in: 100_000 });
  const sessions = running.client(AccessSessionService, secret);
  const others = await sessionOf(running);
  const { sessions: own } = await sessions.listAccessSessions({});
  expect(own).toHaveLength(1);
  const all = await running.client(AccessSessionService).listAccessSessions({ environment: "dev" });
  expect(all.sessions.map(({ state }) => state)).toEqual([AccessSessionState.ACTIVE, AccessSessionState.ACTIVE]);
  const foreign = all.sessions.find(({ id }) => id !== own[0]?.id)?.id ?? "";
  await expect(sessions.endAccessSession({ id: foreign })).rejects.toThrow("no such access session");
  expect(await (faces["/proxy"] as Face)(running, others)).toEqual([200, null]);
});

it("names one existing connection of each integration, unless several are allowed", async () => {
  const running = await startForSessions();
  const create = async (connections: readonly object[], more: object = {}) => {
    const { status, body } = await running.rest("POST", "/access-sessions", {
      body: { limits: { connections }, ...more },
    });
    return [status, body.error?.code];
  };
  const [ada, bob] = ["ada", "bob"].map((id) => ({ integration: "here", id }));
  expect(await create([])).toEqual([400, "invalid_body"]);
  expect(await create([ada ?? {}, bob ?? {}])).toEqual([400, "invalid_body"]);
  expect(await create([{ integration: "here" }])).toEqual([400, "invalid_body"]);
  expect(await create([ada ?? {}, bob ?? {}], { allow_several: true })).toEqual([201, undefined]);
  expect(await create([{ integration: "here" }], { allow_several: true })).toEqual([201, undefined]);
  expect(await create([{ integration: "here", id: "nobody" }])).toEqual([404, "unknown_connection"]);
  expect(await create([{ integration: "nowhere", id: "ada" }])).toEqual([404, "unknown_provider_config"]);
});

it("runs actions of its own connections, within limits that name connections alone", async () => {
  const running = await startForSessions();
  const trigger = async (token: string, connection = "ada") => {
    const headers = { "provider-config-key": "here", "connection-id": connection };
    const { body } = await running.rest("POST", "/action/trigger", {
      key: token,
      headers,
      body: { action_name: "go" },
    });
    return body.error.code;
  };
  const scopes = ["syncs"];
  const token = await sessionOf(running, { scopes, budget: 1 });
  // There is no such action: everything before that was admitted.
  expect(await trigger(token)).toBe("unknown_action");
  expect(await trigger(token, "bob")).toBe("not_in_session");
  expect(await trigger(token)).toBe("not_in_session");
  expect(await trigger(await sessionOf(running, { scopes, limits: { ...ofAda, methods: ["GET"] } }))).toBe(
    "not_in_session",
  );
  expect(await trigger(await sessionOf(running))).toBe("missing_scope");
});

it("may be used only from where its audience says", async () => {
  const running = await startForSessions();
  const ask = faces["/proxy"] as Face;
  const send = faces["SendRequest"] as Face;
  const bound = (audience: object) => sessionOf(running, { audience, scopes: ["proxy", "connections:read"] });
  const here = await bound({ addresses: ["127.0.0.0/8", "::1"], listeners: ["data"] });
  expect([await ask(running, here), await send(running, here)]).toEqual([[200, null], denied]);
  // Other connections of the same listener, whose requests have the same bytes.
  expect(await ask(running, here)).toEqual([200, null]);
  for (const audience of [
    { addresses: ["10.0.0.0/8"] },
    { listeners: ["control"] },
    { certificate_names: ["CN:a"] },
    { service_accounts: ["system:serviceaccount:a:b"] },
  ]) {
    const token = await bound(audience);
    expect([audience, await ask(running, token)]).toEqual([audience, denied]);
    const json = await running.rest("GET", "/connections/ada?provider_config_key=here", { key: token });
    expect([audience, json.status]).toEqual([audience, 403]);
  }
  const wrong = await running.rest("POST", "/access-sessions", {
    body: { limits: ofAda, audience: { addresses: ["10.0.0.0/33", "example.com"] } },
  });
  expect(wrong.body.error.errors.map(({ path }: { path: string[] }) => path.join("."))).toEqual([
    "audience.addresses.0",
    "audience.addresses.1",
  ]);
});

it("lives as long as the configuration file says, and no longer", async () => {
  const times = { default_life: "5m", longest_life: "10m" };
  const running = await startForSessions({ files: { "/config": JSON.stringify({ access_sessions: times }) } });
  const made = await running.rest("POST", "/access-sessions", { body: { limits: ofAda } });
  const { created_at: from, expires_at: until } = made.body.data;
  expect(Date.parse(until) - Date.parse(from)).toBe(300_000);
  expect(await sessionOf(running, { expires_in: 600 })).toMatch(/^lks_/);
  const longer = { limits: ofAda, expires_in: 601 };
  const { body } = await running.rest("POST", "/access-sessions", { body: { ...longer, shorten: true } });
  expect(Date.parse(body.data.expires_at) - Date.parse(body.data.created_at)).toBe(600_000);
  const refused = await running.rest("POST", "/access-sessions", { body: longer });
  expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining("at most 600 seconds")]);
});

it("lives up to 30 days if the configuration file says so", async () => {
  const files = { "/config": JSON.stringify({ access_sessions: { longest_life: "30d" } }) };
  const running = await startForSessions({ files });
  expect(await sessionOf(running, { expires_in: 2_592_000 })).toMatch(/^lks_/);
  const sessions = running.client(AccessSessionService);
  const wanted = { environment: "dev", limits: ofAda, lifetime: { seconds: 2_592_000n } };
  expect((await sessions.createAccessSession(wanted)).token).toMatch(/^lks_/);
  const longer = { ...wanted, lifetime: { seconds: 2_592_001n } };
  await expect(sessions.createAccessSession(longer)).rejects.toThrow("not valid");
});

it("sends no more requests than its budget, and keeps both over a restart", async () => {
  const running = await startForSessions();
  const token = await sessionOf(running, { budget: 20 });
  const ask = faces["/proxy"] as Face;
  for (let i = 0; i < 5; i += 1) expect(await ask(running, token)).toEqual([200, null]);
  await running.stop();
  const again = await startTestSidecar({
    folder: running.folder,
    env: { LATCHKEY_ALLOW_PRIVATE: running.config.allowPrivate.join(","), LATCHKEY_CONFIG: "/config" },
    files: { "/config": JSON.stringify(unhurried) },
  });
  const asked = { ...running, ...again };
  const answers = await Promise.all(Array.from({ length: 40 }, () => ask(asked, token)));
  expect(answers.filter(([status]) => status === 200)).toHaveLength(15);
  expect(answers.filter(([, code]) => code === "not_in_session")).toHaveLength(25);
  expect(running.sent()).toBe(20);
});
