import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import {
  appOrigin,
  auditOf,
  type Connecting,
  connecting,
  departure,
  refreshOf,
} from "../../support/sidecar/connecting.ts";
import { head, keyWith, openWire } from "../../support/sidecar/door.ts";
import { adminKey } from "../../support/sidecar/harness.ts";

/** A request as the frontend SDK makes it. */
async function post({ sidecar }: Connecting, path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${sidecar.data}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
}

it("creates a session, shows it to the holder of its token, and ends it", async () => {
  const all = await connecting();
  const { sidecar } = all;
  const made = await sidecar.rest("POST", "/connect/sessions", {
    body: {
      end_user: { id: "u1", email: "a@b.example" },
      organization: { id: "acme" },
      allowed_integrations: ["sandbox-files"],
      integrations_config_defaults: {
        "sandbox-files": { user_scopes: "a,b", authorization_params: { prompt: "none" } },
      },
    },
  });
  expect(made.status).toBe(201);
  const { token, connect_link, expires_at } = made.body.data;
  expect(token).toMatch(/^lk_connect_/);
  expect(connect_link).toBe(`${sidecar.data}/connect/?session_token=${token}`);
  expect(Date.parse(expires_at) - Date.now()).toBeGreaterThan(29 * 60_000);
  const shown = await sidecar.rest("GET", "/connect/session", { key: token });
  expect([shown.status, shown.body.data]).toEqual([
    200,
    expect.objectContaining({
      endUser: expect.objectContaining({
        id: "u1",
        email: "a@b.example",
        organization: { id: "acme", display_name: null },
      }),
      allowed_integrations: ["sandbox-files"],
      isReconnecting: false,
      integrations_config_defaults: {
        "sandbox-files": { user_scopes: "a,b", authorization_params: { prompt: "none" }, connection_config: {} },
      },
    }),
  ]);
  expect((await sidecar.rest("DELETE", "/connect/session", { key: token })).status).toBe(204);
  expect((await sidecar.rest("GET", "/connect/session", { key: token })).status).toBe(401);
  expect((await auditOf(all, "connect_session")).map(({ action }) => action).sort()).toEqual([
    "connect_session.create",
    "connect_session.delete",
  ]);
});

it.each([
  [{}, ["end_user"]],
  [{ tags: { "1x": "y" } }, ["tags", "1x"]],
  [{ tags: { a: "b" }, allowed_integrations: "x" }, ["allowed_integrations"]],
  [{ tags: { a: "b" }, webhook_url_override: "ftp://x" }, ["webhook_url_override"]],
])("refuses a session that cannot connect anything (%j)", async (body, path) => {
  const all = await connecting();
  const answer = await all.sidecar.rest("POST", "/connect/sessions", { body });
  expect([answer.status, answer.body.error.errors[0].path]).toEqual([400, path]);
});

it("refuses a session for unknown integrations and connections", async () => {
  const { sidecar } = await connecting();
  const tags = { a: "b" };
  const unknown = await sidecar.rest("POST", "/connect/sessions", { body: { tags, allowed_integrations: ["nope"] } });
  expect([unknown.status, unknown.body.error.code]).toEqual([404, "unknown_provider_config"]);
  const gone = await sidecar.rest("POST", "/connect/sessions/reconnect", {
    body: { connection_id: "nobody", integration_id: "sandbox-files" },
  });
  expect([gone.status, gone.body.error.code]).toEqual([404, "unknown_connection"]);
});

it("needs a key that may write connections to make a session", async () => {
  const { sidecar } = await connecting();
  const key = await keyWith(sidecar, Scope.CONNECTIONS_READ);
  expect((await sidecar.rest("POST", "/connect/sessions", { body: { tags: { a: "b" } }, key })).status).toBe(403);
});

it("ends a session after thirty minutes", async () => {
  let now = Date.now();
  const all = await connecting({ sidecar: { now: () => now } });
  const token = await all.session();
  now += 30 * 60_000 - 1_000;
  expect((await all.sidecar.rest("GET", "/connect/session", { key: token })).status).toBe(200);
  await all.browser().get(departure(all, token));
  now += 1_000;
  expect((await all.sidecar.rest("GET", "/connect/session", { key: token })).status).toBe(401);
  expect((await all.browser().go(departure(all, token))).status).toBe(401);
});

it("serves sessions over gRPC: the token once, the session by its id, and to its own environment", async () => {
  const all = await connecting();
  const own = await keyWith(all.sidecar, Scope.CONNECTIONS_WRITE, Scope.CONNECTIONS_READ);
  const sessions = all.sidecar.client(ConnectSessionService, own);
  const { session, token, connectLink } = await sessions.createConnectSession({ tags: { Team: "sales" } });
  expect(connectLink).toContain(token);
  expect(session).toMatchObject({ environment: "dev", tags: { team: "sales" } });
  expect(session?.id).not.toContain(token);
  const id = session?.id ?? "";
  expect((await sessions.getConnectSession({ id })).session).toEqual(session);
  const environments = all.sidecar.client(EnvironmentService);
  await environments.createEnvironment({ name: "other" });
  const { secret } = await environments.createKey({ environment: "other" });
  await expect(all.sidecar.client(ConnectSessionService, secret).getConnectSession({ id })).rejects.toThrow("no such");
  await expect(sessions.deleteConnectSession({ id, expectedRevision: 1n })).rejects.toThrow("read it again");
  await all.sidecar.client(ConnectSessionService, adminKey).deleteConnectSession({ id });
  await expect(sessions.getConnectSession({ id })).rejects.toThrow("no such");
});

it("lets a session connect only what it was created for", async () => {
  const all = await connecting();
  const token = await all.session({ allowed_integrations: ["sandbox-api-key"] });
  expect((await all.browser().go(departure(all, token))).status).toBe(404);
  const other = await post(all, `/api-auth/basic/sandbox-basic?connect_session_token=${token}`, {
    username: "x",
    password: "y",
  });
  expect([other.status, other.body.error.code]).toEqual([404, "unknown_provider_config"]);
});

it("offers the remaining integrations when one of the session was deleted", async () => {
  const all = await connecting();
  await all.sidecar.rest("POST", "/integrations", { body: { unique_key: "gone", provider: "sandbox-api-key" } });
  const token = await all.session({ allowed_integrations: ["sandbox-files", "gone"] });
  expect((await all.sidecar.rest("DELETE", "/integrations/gone")).status).toBe(200);
  const page = await all.browser().go(`${all.sidecar.data}/connect/?session_token=${token}`);
  expect([page.status, page.text]).toEqual([200, expect.stringContaining("Connect Sandbox: file storage")]);
});

it("explains what is wrong with a link without a token", async () => {
  const all = await connecting();
  const page = (headers = {}) => all.browser().get(`${all.sidecar.data}/connect/`, headers);
  const bare = await page({ referer: "https://mail.example/" });
  expect([bare.status, await bare.text()]).toEqual([401, expect.stringContaining("This link is incomplete.")]);
  const fields = { "sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate", "sec-fetch-site": "cross-site" };
  const framed = await page({ ...fields, referer: "https://unlisted.example/" });
  expect([framed.status, framed.headers.get("latchkey-error")]).toEqual([403, "origin_not_allowed"]);
});

it("limits the authorizations of a session", async () => {
  const all = await connecting();
  const token = await all.session();
  for (let i = 0; i < 20; i += 1) await (await all.browser().get(departure(all, token))).arrayBuffer();
  expect((await all.browser().get(departure(all, token))).status).toBe(429);
});

it("limits the concurrent authorizations of a session", async () => {
  const all = await connecting();
  const away = departure(all, await all.session());
  const answers = await Promise.all(Array.from({ length: 100 }, () => all.browser().get(away)));
  // One that is stored while another is checked may be missed by both counts.
  expect(answers.filter(({ status }) => status === 303).length).toBeLessThanOrEqual(30);
  expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(70);
});

it("connects by a typed-in API key and password", async () => {
  const all = await connecting();
  const key = await post(all, `/api-auth/api-key/sandbox-api-key?connect_session_token=${await all.session()}`, {
    apiKey: "sandbox-api-key",
  });
  expect(key).toMatchObject({ status: 200, body: { providerConfigKey: "sandbox-api-key" } });
  const connection = await all.connection("sandbox-api-key", key.body.connectionId);
  expect(connection).toMatchObject({
    credentials: { type: "API_KEY", apiKey: "sandbox-api-key" },
    tags: { end_user_id: "ada" },
  });
  const headers = { authorization: `Bearer ${await all.session()}` };
  const basic = await post(
    all,
    "/api-auth/basic/sandbox-basic",
    { username: "sandbox", password: "sandbox-password" },
    headers,
  );
  expect(basic.status).toBe(200);
  expect((await post(all, "/api-auth/basic/sandbox-basic", { username: "a" }, headers)).status).toBe(401);
});

it("reports a wrong key, stores nothing, and allows another try", async () => {
  const provider = (origin: string) => {
    const secure = origin.replace("http:", "https:");
    const verification = { request: { method: "GET", path: "/api/me" } };
    return [{ name: "proven", api_key: { header: "x-api-key" }, proxy: { base_url: secure }, verification }];
  };
  const all = await connecting({
    providers: provider,
    integrations: [{ environment: "dev", key: "proven", provider: "proven" }],
  });
  const token = await all.session();
  const path = `/api-auth/api-key/proven?connect_session_token=${token}`;
  const wrong = await post(all, path, { apiKey: "a-wrong-key" });
  expect([wrong.status, wrong.body.error.code]).toEqual([400, "connection_test_failed"]);
  expect(JSON.stringify(wrong.body)).not.toContain("a-wrong-key");
  expect(await all.connections()).toEqual([]);
  all.sandbox.behave({ answers: { api: [{ kind: "reset-after-reading", times: 9 }] } });
  expect((await post(all, path, { apiKey: "sandbox-api-key" })).status).toBe(200);
  expect(all.sidecar.logged.join()).not.toContain("a-wrong-key");
});

it("obtains a first token for the end user's own client, and reports a refusal", async () => {
  const all = await connecting();
  const token = await all.session();
  const path = `/oauth2/auth/sandbox-client-credentials?connect_session_token=${token}`;
  const wrong = await post(all, path, { client_id: "sandbox", client_secret: "wrong" });
  expect([wrong.status, wrong.body.error.code]).toEqual([400, "connection_test_failed"]);
  expect((await post(all, path, { client_id: "sandbox" })).status).toBe(400);
  const right = await post(all, path, { client_id: "sandbox", client_secret: "sandbox-secret" });
  expect(right.status).toBe(200);
  const { credentials } = await all.connection("sandbox-client-credentials", right.body.connectionId);
  expect(credentials).toMatchObject({ type: "OAUTH2_CC", client_id: "sandbox", token: expect.stringMatching(/^sbx_/) });
});

it("asks for the details that a provider's address needs, and takes them from nowhere else", async () => {
  const all = await connecting({
    providers: () => [
      {
        name: "tenant",
        oauth2: {
          authorization_url: "https://${connectionConfig.shop}.example.com/auth",
          token_url: "https://${connectionConfig.shop}.example.com/token",
        },
        proxy: { base_url: "https://${connectionConfig.shop}.example.com" },
        connection_fields: [
          { name: "shop", pattern: "[a-z]+", required: true },
          { name: "cell", automatic: true, pattern: "[a-z]+" },
        ],
      },
    ],
    integrations: [
      {
        environment: "dev",
        key: "tenant",
        provider: "tenant",
        oauth: { client_id: "c", client_secret: { env: "APP_SECRET" } },
      },
    ],
  });
  const go = async (params: Record<string, string>, session = {}) =>
    all.browser().get(departure(all, await all.session(session), params, "tenant"));
  expect((await go({})).status).toBe(400);
  expect((await go({ "params[shop]": "acme.evil.example/" })).status).toBe(400);
  expect((await go({ "params[shop]": "acme" })).headers.get("location")).toMatch(
    /^https:\/\/acme\.example\.com\/auth\?/,
  );
  // A page cannot change values that the application has set.
  const fixed = { integrations_config_defaults: { tenant: { connection_config: { shop: "fixed" } } } };
  expect((await go({ "params[shop]": "acme" }, fixed)).headers.get("location")).toMatch(/^https:\/\/fixed\./);
});

it("K02 answers CORS to the environment's own origins, without cookies, and to no other", async () => {
  const all = await connecting();
  const { data, client } = all.sidecar;
  await client(EnvironmentService).createEnvironment({ name: "other", allowedOrigins: ["https://other.example.com"] });
  const token = await all.session();
  const from = (origin: string, path: string, init: RequestInit = {}) =>
    fetch(`${data}${path}`, { ...init, headers: { origin, ...(init.headers as Record<string, string>) } });
  const cors = (response: Response) => [response.status, response.headers.get("access-control-allow-origin")];
  const auth = { authorization: `Bearer ${token}` };
  const good = await from(appOrigin, "/connect/session", { headers: auth });
  expect(cors(good)).toEqual([200, appOrigin]);
  expect(good.headers.get("access-control-allow-credentials")).toBeNull();
  expect(good.headers.get("vary")).toBe("Origin");
  const asking = { "access-control-request-method": "POST", "access-control-request-headers": "content-type" };
  const preflight = (origin: string, path: string) => from(origin, path, { method: "OPTIONS", headers: asking });
  expect(cors(await preflight(appOrigin, `/api-auth/api-key/sandbox-api-key?connect_session_token=${token}`))).toEqual([
    204,
    appOrigin,
  ]);
  for (const path of ["/connections", "/connect/sessions", "/oauth/callback", "/proxy/x", "/api-auth/nope"]) {
    expect([path, ...cors(await preflight(appOrigin, path))]).toEqual([path, 403, null]);
  }
  for (const origin of ["https://evil.test", "null", `${appOrigin}.evil.test`]) {
    expect(cors(await from(origin, "/connect/session", { headers: auth }))).toEqual([403, null]);
    expect(cors(await preflight(origin, "/connect/session"))).toEqual([403, null]);
  }
  // Not an origin of the session's environment.
  expect(cors(await from("https://other.example.com", "/connect/session", { headers: auth }))).toEqual([403, null]);
  // An allowed origin opens the browser routes and nothing else.
  expect(cors(await from(appOrigin, "/connections", { headers: auth }))).toEqual([403, null]);
});

it("K02 allows links of other sites to its pages, but no scripts, frames or forms", async () => {
  const all = await connecting();
  const url = departure(all, await all.session());
  const sent = async (headers: Record<string, string>, init: RequestInit = {}) =>
    (await fetch(url, { redirect: "manual", ...init, headers })).status;
  const raw = async (...lines: string[]) => {
    const wire = await openWire(all.sidecar.data);
    const { pathname, search } = new URL(url);
    wire.send(head(`GET ${pathname}${search} HTTP/1.1`, "host: localhost", "connection: close", ...lines));
    return Number(/^HTTP\/1\.1 (\d+)/.exec(await wire.ended)?.[1]);
  };
  expect(await raw("sec-fetch-site: cross-site", "sec-fetch-mode: navigate")).toBe(200);
  expect(await raw("sec-fetch-site: cross-site", "sec-fetch-mode: no-cors")).toBe(403);
  expect(await raw("sec-fetch-site: cross-site", "sec-fetch-mode: cors", "origin: https://evil.test")).toBe(403);
  expect(await raw("origin: https://evil.test")).toBe(403);
  expect(await sent({}, { method: "POST" })).toBe(405);
});

it("redirects other names of this machine to the one that providers redirect to", async () => {
  const all = await connecting();
  const url = departure(all, await all.session());
  const response = await all.browser().get(url.replace("127.0.0.1", "localhost"));
  expect(response.headers.get("location")).toBe(url);
  expect(response.headers.get("set-cookie")).toBeNull();
});

it("serves only the browser's routes on the public listener", async () => {
  const all = await connecting({ sidecar: { env: { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0" } } });
  const open = all.sidecar.sidecar.addresses.public ?? "";
  const token = await all.session();
  const auth = { authorization: `Bearer ${token}` };
  expect((await fetch(`${open}/connect/session`, { headers: auth })).status).toBe(200);
  expect((await fetch(`${open}/connections`)).status).toBe(404);
  expect((await fetch(`${open}/connect/sessions`, { method: "POST" })).status).toBe(404);
  const page = await all.browser().go(`${open}/oauth/connect/sandbox-files?connect_session_token=${token}`);
  expect([page.status, page.url.startsWith(`${open}/oauth/callback`)]).toEqual([200, true]);
});

it("K02 shows its page in no frame but an allowed one, and takes its form from nowhere else", async () => {
  const all = await connecting();
  const { data } = all.sidecar;
  const token = await all.session({ allowed_integrations: ["sandbox-api-key"] });
  const page = (more: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(`${data}/connect/?${new URLSearchParams(more)}`, { headers });
  const frames = (response: Response) =>
    /frame-ancestors ([^;]+)/.exec(response.headers.get("content-security-policy") ?? "")?.[1];
  expect(frames(await page({ session_token: token }))).toBe("'none'");
  expect(frames(await page({ session_token: token, embedder: appOrigin }))).toBe(appOrigin);
  expect((await page({ session_token: token, embedder: "https://evil.test" })).status).toBe(403);
  const other = "https://other.example";
  await all.sidecar.client(EnvironmentService).createEnvironment({ name: "other", allowedOrigins: [other] });
  const elsewhere = await page({ session_token: token, embedder: other });
  expect([elsewhere.status, frames(elsewhere)]).toEqual([403, "'none'"]);
  expect((await page({ session_token: token, return_to: "https://evil.test/" })).status).toBe(400);
  expect(frames(await page({}, { referer: `${appOrigin}/x` }))).toBe(appOrigin);
  expect((await page({}, { referer: "https://evil.test/" })).status).toBe(401);
  const form = (headers: Record<string, string>, more: Record<string, string> = {}) =>
    fetch(`${data}/connect/`, {
      method: "POST",
      headers,
      redirect: "manual",
      body: new URLSearchParams({
        session_token: token,
        integration: "sandbox-api-key",
        apiKey: "sandbox-api-key",
        ...more,
      }),
    });
  expect((await form({ origin: "https://evil.test" })).status).toBe(403);
  expect((await form({ origin: appOrigin })).status).toBe(403);
  expect((await form({}, { return_to: "https://evil.test/" })).status).toBe(400);
  expect((await form({}, { session_token: `${token}x` })).status).toBe(401);
  expect(await all.connections()).toEqual([]);
  const sent = await form({ origin: "null" }, { return_to: `${appOrigin}/done` });
  const [item] = await all.connections();
  expect([sent.status, refreshOf(await sent.text())]).toEqual([
    200,
    `${appOrigin}/done?provider_config_key=sandbox-api-key&connection_id=${item?.connection_id}`,
  ]);
});
