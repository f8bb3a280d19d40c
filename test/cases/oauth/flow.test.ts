import { createHash, createHmac } from "node:crypto";
import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import {
  appOrigin,
  auditOf,
  broughtBackTo,
  connecting,
  departure,
  tokenCalls,
} from "../../support/sidecar/connecting.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

const callbackOf = (all: Awaited<ReturnType<typeof connecting>>, query: string, context = "") =>
  `${all.sidecar.data}/oauth/callback${context}?${query}`;

it("connects an account with one token request and one commit", async () => {
  const all = await connecting();
  const { sidecar } = all;
  const before = sidecar.sidecar.broker.storeStatus().revision;
  const token = await all.session({ end_user: { id: "u1", email: "ada@app.example" }, tags: { Team: "sales" } });
  const page = await all.browser().go(departure(all, token));
  expect([page.status, page.text.includes("is connected")]).toEqual([200, true]);
  const [item] = await all.connections();
  const connection = await all.connection("sandbox-files", item?.connection_id ?? "");
  expect(connection).toMatchObject({
    provider: "sandbox-files",
    tags: { team: "sales", end_user_id: "u1", end_user_email: "ada@app.example" },
    end_user: { id: "u1" },
    errors: [],
    credentials: { type: "OAUTH2", raw: { token_type: "Bearer" } },
  });
  expect(connection.credentials["access_token"]).toMatch(/^sbx_/);
  expect(connection.credentials["refresh_token"]).toMatch(/^sbx_/);
  expect(tokenCalls(all)).toBe(1);
  // The session, the authorization, its taking, a block of numbers, and the connection with all that belongs to it.
  expect(sidecar.sidecar.broker.storeStatus().revision - before).toBe(5);
  expect((await auditOf(all, "connection.authorize")).map(({ actor, targets }) => [actor, targets])).toEqual([
    ["secret-key", [`sandbox-files/${item?.connection_id}`]],
  ]);
  expect(await sidecar.metric('latchkey_authorizations_total{credentials="oauth2",outcome="connected"}')).toBe(1);
  expect(await sidecar.metric('latchkey_authorizations_begun_total{credentials="oauth2"}')).toBe(1);
});

it("verifies the sandbox's ID token with its published keys, and fails without keys", async () => {
  const all = await connecting();
  expect((await all.browser().go(departure(all, await all.session()))).status).toBe(200);
  const [item] = await all.connections();
  const { credentials } = await all.connection("sandbox-files", item?.connection_id ?? "");
  expect(credentials["raw"]).toMatchObject({ id_token: expect.stringMatching(/^ey/) });
  expect(all.sandbox.seen().requests.jwks).toBe(1);

  const other = await connecting();
  other.sandbox.behave({ answers: { jwks: [{ kind: "error", status: 503, error: "server_error" }] } });
  expect((await other.browser().go(departure(other, await other.session()))).status).not.toBe(200);
  expect(await other.connections()).toEqual([]);
  expect(tokenCalls(other)).toBe(1);
});

it("ends a session with its connection: a link creates one, however many users start", async () => {
  const all = await connecting();
  const token = await all.session();
  const browser = all.browser();
  const [first, second] = [
    await broughtBackTo(all, browser, departure(all, token)),
    await broughtBackTo(all, browser, departure(all, token)),
  ];
  expect((await browser.go(first)).status).toBe(200);
  const late = await browser.go(second);
  expect([late.status, late.text]).toEqual([400, expect.stringContaining("has been used")]);
  expect((await browser.go(departure(all, token))).status).toBe(401);
  expect(await all.connections()).toHaveLength(1);
});

it("creates one connection from two concurrent authorizations of a session", async () => {
  const all = await connecting();
  const token = await all.session();
  const browser = all.browser();
  const backs = [
    await broughtBackTo(all, browser, departure(all, token)),
    await broughtBackTo(all, browser, departure(all, token)),
  ];
  // Both have their tokens before either is stored.
  all.sandbox.behave({ answers: { token: [{ kind: "ordinary", holdMs: 300 }] } });
  const statuses = await Promise.all(backs.map(async (back) => (await browser.go(back)).status));
  expect([statuses.sort(), tokenCalls(all)]).toEqual([[200, 400], 2]);
  expect(await all.connections()).toHaveLength(1);
});

it("O01 redirects nowhere without a state, whatever the referrer", async () => {
  const all = await connecting();
  const response = await all.browser().get(callbackOf(all, "installation_id=1&setup_action=install"), {
    referer: "https://evil.example/",
  });
  expect([response.status, response.headers.get("location")]).toEqual([400, null]);
  expect(await response.text()).not.toContain("evil");
});

it("O02 accepts a state once and for ten minutes; any other gets the same answer without a provider request", async () => {
  let now = Date.now();
  const all = await connecting({ sidecar: { now: () => now } });
  const browser = all.browser();
  const token = await all.session();
  const outdated = await broughtBackTo(all, browser, departure(all, token));
  now += 10 * 60_000;
  const answers = [await browser.go(outdated), await browser.go(outdated)];
  answers.push(await browser.go(callbackOf(all, `state=${"x".repeat(43)}&code=abc`)));
  expect(tokenCalls(all)).toBe(0);
  const good = await broughtBackTo(all, browser, departure(all, token));
  expect((await browser.go(good)).status).toBe(200);
  answers.push(await browser.go(good));
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(answers[0]?.status).toBe(400);
  expect(tokenCalls(all)).toBe(1);
});

it("O02 accepts one of two concurrent callbacks", async () => {
  const all = await connecting();
  const browser = all.browser();
  const back = await broughtBackTo(all, browser, departure(all, await all.session()));
  const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await browser.go(back)).status));
  expect(statuses.filter((status) => status === 200)).toHaveLength(1);
  expect(tokenCalls(all)).toBe(1);
});

it("O02 keeps the state when the link is only previewed", async () => {
  const all = await connecting();
  const browser = all.browser();
  const away = departure(all, await all.session());
  const back = await broughtBackTo(all, browser, away);
  const cookie = `latchkey-browser=${[...browser.cookies.values()][0]}`;
  for (const url of [away, back]) {
    const head = await fetch(url, { method: "HEAD", redirect: "manual", headers: { cookie } });
    expect([head.status, head.headers.get("allow"), head.headers.get("location")]).toEqual([405, "GET", null]);
  }
  expect(tokenCalls(all)).toBe(0);
  expect((await browser.go(back)).status).toBe(200);
});

it.each(["state=a&state=b", "state[]=a", `state=${"a".repeat(10_240)}`, "state=", "code=a"])(
  "O03 refuses an invalid state (%.20s)",
  async (query) => {
    const all = await connecting();
    const { status } = await all.browser().go(callbackOf(all, query));
    // A path of more than eight KiB is not looked at at all.
    expect(status).toBe(query.length > 8_192 ? 414 : 400);
  },
);

it.each([
  ["code=another", "repeated_code"],
  ["error=access_denied", "code_with_error"],
  ["error=a&error=b", "repeated_error"],
  ["state=another", "repeated_state"],
  ["iss=a&iss=b", "repeated_iss"],
  ["oauth_verifier=a&oauth_verifier=b", "repeated_oauth_verifier"],
  ["<b>=1&<b>=2", "repeated_parameter"],
])("O03 refuses an answer with %s beside the valid fields, and uses up its state", async (more, reason) => {
  const all = await connecting();
  const browser = all.browser();
  const back = await broughtBackTo(all, browser, departure(all, await all.session()));
  const page = await browser.go(`${back.replace(/&iss=[^&]*/, "")}&${more}`);
  expect([page.status, page.text]).toEqual([400, expect.stringContaining("is not well-formed")]);
  expect((await browser.go(back)).status).toBe(400);
  expect([tokenCalls(all), await all.connections()]).toEqual([0, []]);
  const line = all.sidecar.logged.map((one) => JSON.parse(one)).find(({ outcome }) => outcome === "malformed_answer");
  expect(line).toMatchObject({ environment: "dev", integration: "sandbox-files", reason });
  const series = 'latchkey_authorizations_total{credentials="oauth2",outcome="malformed_answer"}';
  expect(await all.sidecar.metric(series)).toBe(1);
});

it("O03 uses up both of two states in one answer, in either order", async () => {
  const all = await connecting();
  const browser = all.browser();
  const [one, two] = [
    await broughtBackTo(all, browser, departure(all, await all.session())),
    await broughtBackTo(all, browser, departure(all, await all.session())),
  ];
  const state = new URL(two).searchParams.get("state");
  expect((await browser.go(`${one}&state=${state}`)).status).toBe(400);
  for (const back of [one, two]) expect((await browser.go(back)).status).toBe(400);
  expect([tokenCalls(all), await all.connections()]).toEqual([0, []]);
  const reasons = all.sidecar.logged.filter((line) => line.includes("repeated_state"));
  expect(reasons).toHaveLength(2);
});

it.each(["no cookie", "another cookie", "another beside it", "another behind it"])(
  "O04 O06 stops a browser that did not begin (%s)",
  async (which) => {
    const all = await connecting();
    const browser = all.browser();
    const back = await broughtBackTo(all, browser, departure(all, await all.session()));
    const own = [...browser.cookies.values()][0];
    const other = "x".repeat(43);
    const cookies: Record<string, string> = {
      "no cookie": "",
      "another cookie": other,
      "another beside it": `${other}; latchkey-browser=${own}`,
      "another behind it": `${own}; latchkey-browser=${other}`,
    };
    const cookie = cookies[which];
    const stranger = await all.browser().get(back, cookie === "" ? {} : { cookie: `latchkey-browser=${cookie}` });
    expect([stranger.status, await stranger.text()]).toEqual([400, expect.stringContaining("another browser")]);
    // The state is used up: not even the right browser can continue.
    expect((await browser.go(back)).status).toBe(400);
    expect(tokenCalls(all)).toBe(0);
    expect(await all.connections()).toEqual([]);
  },
);

it("O04 binds by a cookie that only this host can set, over TLS", async () => {
  const all = await connecting({ sidecar: { env: { LATCHKEY_PUBLIC_URL: "https://connect.example.com" } } });
  const response = await all.browser().get(departure(all, await all.session()));
  expect(response.headers.get("set-cookie")).toMatch(
    /^__Host-latchkey-browser=[A-Za-z0-9_-]{43}; Path=\/; Max-Age=1800; HttpOnly; SameSite=Lax; Secure$/,
  );
  expect(new URL(response.headers.get("location") ?? "").searchParams.get("redirect_uri")).toBe(
    "https://connect.example.com/oauth/callback",
  );
});

it("O05 stops an answer that comes back on another integration's address", async () => {
  const all = await connecting({
    integrations: ["one", "two"].map((key) => ({
      environment: "dev",
      key,
      provider: "sandbox-files",
      callback: "bound",
      oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
    })),
  });
  const { sidecar } = all;
  const shown = async (key: string) =>
    (await sidecar.client(IntegrationService).getIntegration({ environment: "dev", key })).integration?.callbackUrl ??
    "";
  const [one, two] = [await shown("one"), await shown("two")];
  expect(one).toMatch(new RegExp(`^${sidecar.data}/oauth/callback/[A-Za-z0-9_-]{22}$`));
  expect(two).not.toBe(one);
  const browser = all.browser();
  const right = await broughtBackTo(all, browser, departure(all, await all.session(), {}, "one"));
  expect(right.startsWith(`${one}?`)).toBe(true);
  expect((await browser.go(right)).status).toBe(200);
  for (const wrong of [two, `${sidecar.data}/oauth/callback`]) {
    const back = await broughtBackTo(all, browser, departure(all, await all.session(), {}, "one"));
    expect((await browser.go(back.replace(one, wrong))).status).toBe(400);
    expect((await browser.go(back)).status).toBe(400);
  }
  expect(tokenCalls(all)).toBe(1);
  expect((await auditOf(all, "authorization.context_mismatch")).map(({ targets }) => targets)).toEqual([
    ["one"],
    ["one"],
  ]);
});

it("O07 shows nothing of an answer's text, and its pages run and load nothing", async () => {
  const all = await connecting();
  const browser = all.browser();
  const back = new URL(await broughtBackTo(all, browser, departure(all, await all.session())));
  const evil = "<img src=x onerror=alert(1)>";
  back.search = new URLSearchParams({
    state: back.searchParams.get("state") ?? "",
    error: "bad",
    error_description: evil,
    error_uri: "javascript:alert(1)",
  }).toString();
  const page = await browser.go(back.href);
  expect(page.status).toBe(400);
  expect(page.text).not.toMatch(/onerror|<img|javascript:/);
  expect(page.text).toContain("The provider refused: bad.");
  const policy = page.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/unsafe|\*|https:/);
  expect(
    Object.fromEntries(
      ["referrer-policy", "cache-control", "x-frame-options", "x-content-type-options"].map((name) => [
        name,
        page.headers.get(name),
      ]),
    ),
  ).toEqual({
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
  });
});

it("O07 escapes the code of an error", async () => {
  const all = await connecting();
  const browser = all.browser();
  const back = new URL(await broughtBackTo(all, browser, departure(all, await all.session())));
  back.search = new URLSearchParams({ state: back.searchParams.get("state") ?? "", error: "<b>x</b>" }).toString();
  const page = await browser.go(back.href);
  expect(page.text).toContain("&lt;b&gt;x&lt;/b&gt;");
  expect(page.text).not.toContain("<b>x");
});

it.each([
  "//evil.example",
  "https:evil.example",
  "https:/evil.example",
  "javascript:alert(1)",
  `${appOrigin}.evil.example`,
  `${appOrigin}@evil.example`,
  `${appOrigin}:443/`,
  `https://app.example.com\\@evil.example/`,
  `${appOrigin}/\r\nset-cookie:x`,
  "https://APP.example.com/",
  "http://app.example.com/",
  "/relative",
])("O08 redirects no browser to %j", async (target) => {
  const all = await connecting();
  const response = await all.browser().get(departure(all, await all.session(), { return_to: target }));
  expect([response.status, response.headers.get("location")]).toEqual([400, null]);
});

it("O08 redirects a browser to an allowed origin with the outcome only", async () => {
  const all = await connecting();
  const browser = all.browser();
  const target = `${appOrigin}/done?tab=2`;
  const back = await browser.until(departure(all, await all.session(), { return_to: target }), appOrigin);
  const [item] = await all.connections();
  expect(back).toBe(`${target}&provider_config_key=sandbox-files&connection_id=${item?.connection_id}`);
  all.sandbox.behave({ consent: "deny" });
  const denied = await browser.until(departure(all, await all.session(), { return_to: target }), appOrigin);
  expect(denied).toBe(`${target}&provider_config_key=sandbox-files&error=denied`);
});

it("reports denied access, and uses up the state", async () => {
  const all = await connecting({ sandbox: { behaviour: { consent: "deny" } } });
  const browser = all.browser();
  const token = await all.session();
  const back = await broughtBackTo(all, browser, departure(all, token));
  const page = await browser.go(back);
  expect([page.status, page.text]).toEqual([200, expect.stringContaining("Access was not allowed")]);
  expect((await browser.go(back)).status).toBe(400);
  expect(tokenCalls(all)).toBe(0);
  // The link still works: a user who changes their mind needs no new one.
  all.sandbox.behave({ consent: "allow" });
  expect((await browser.go(departure(all, token))).status).toBe(200);
});

it.each(["wrong", "missing"] as const)("refuses an answer whose issuer is %s before it sends anything", async (iss) => {
  const all = await connecting({
    sandbox: { behaviour: { consent: "allow", iss } },
    providers: (origin) => [
      {
        name: "strict",
        oauth2: {
          authorization_url: `${origin}/oauth2/auth`,
          token_url: `${origin.replace("http:", "https:")}/oauth2/token`,
          issuer: origin,
          issuer_always: true,
        },
        proxy: { base_url: origin.replace("http:", "https:") },
      },
    ],
    integrations: [
      {
        environment: "dev",
        key: "strict",
        provider: "strict",
        oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
      },
    ],
  });
  const page = await all.browser().go(departure(all, await all.session(), {}, "strict"));
  expect([page.status, page.text]).toEqual([400, expect.stringContaining("may be from another provider")]);
  expect(tokenCalls(all)).toBe(0);
});

it("stops an answer that its provider has not signed, where it signs them", async () => {
  const all = await connecting({
    providers: (origin) => [
      {
        name: "signing",
        oauth2: {
          authorization_url: `${origin}/oauth2/auth`,
          token_url: `${origin.replace("http:", "https:")}/oauth2/token`,
          callback_signature: { parameter: "hmac" },
        },
        proxy: { base_url: origin.replace("http:", "https:") },
      },
    ],
    integrations: [
      {
        environment: "dev",
        key: "signing",
        provider: "signing",
        oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
      },
    ],
  });
  const browser = all.browser();
  const go = async () => new URL(await broughtBackTo(all, browser, departure(all, await all.session(), {}, "signing")));
  expect((await browser.go((await go()).href)).text).toContain("signature of the provider&#39;s answer is not valid");
  expect(tokenCalls(all)).toBe(0);
  const back = await go();
  const content = [...back.searchParams].sort().map(([name, value]) => `${name}=${value}`);
  back.searchParams.set("hmac", createHmac("sha256", "sandbox-secret").update(content.join("&")).digest("hex"));
  expect((await browser.go(back.href)).status).toBe(200);
});

it("O19 stores a narrower scope, shows it, and names the missing ones", async () => {
  const all = await connecting({
    sandbox: { behaviour: { consent: "allow", grantOnly: ["openid", "email", "profile"] } },
  });
  const page = await all.browser().go(departure(all, await all.session()));
  expect(page.text).toContain("<code>drive</code>");
  const [item] = await all.connections();
  const ref = { environment: "dev", integration: "sandbox-files", id: item?.connection_id ?? "" };
  const { connection } = await all.sidecar.client(ConnectionService).getConnection({ ref });
  expect(connection?.grantedScopes).toEqual(["openid", "email", "profile"]);
  expect(connection?.missingScopes).toEqual(["drive"]);

  // The application sees them too, in a list and with the connection, and so does the command line.
  const granted = ["openid", "email", "profile"];
  expect(item).toMatchObject({ missing_scopes: ["drive"] });
  expect(await all.connection("sandbox-files", ref.id)).toMatchObject({
    granted_scopes: granted,
    missing_scopes: ["drive"],
  });
  const terminal = memoryTerminal({ env: {}, isTerminal: false });
  const at = ["-e", "dev", "--address", all.sidecar.control, "--key", adminKey];
  expect(await runCli(["connections", "get", `sandbox-files/${ref.id}`, ...at], terminal)).toBe(0);
  expect(terminal.out()).toMatch(/missing_scopes.*drive/s);

  all.sandbox.behave({ grantOnly: null });
  expect((await all.browser().go(departure(all, await all.reconnectSession(ref.id)))).status).toBe(200);
  expect(await all.connection("sandbox-files", ref.id)).toMatchObject({
    granted_scopes: expect.arrayContaining([...granted, "drive"]),
    missing_scopes: [],
  });
});

it("asks for further scopes later, and keeps the earlier ones, the metadata and the tags", async () => {
  const all = await connecting();
  const { sidecar } = all;
  const browser = all.browser();
  const first = { integrations_config_defaults: { "sandbox-files": { user_scopes: "spreadsheets" } } };
  await browser.go(departure(all, await all.session({ tags: { team: "sales" }, ...first })));
  const [item] = await all.connections();
  const id = item?.connection_id ?? "";
  await sidecar.rest("PATCH", "/connection/metadata", {
    body: { connection_id: id, provider_config_key: "sandbox-files", metadata: { mine: 1 } },
  });
  const before = await all.connection("sandbox-files", id);
  const further = { integrations_config_defaults: { "sandbox-files": { user_scopes: "calendar" } } };
  const token = await all.reconnectSession(id, further);
  const response = await browser.get(departure(all, token));
  const asked = new URL(response.headers.get("location") ?? "").searchParams.get("scope");
  expect(asked?.split(" ")).toEqual(["openid", "email", "profile", "drive", "calendar", "spreadsheets"]);
  expect((await browser.go(departure(all, token))).status).toBe(200);
  const after = await all.connection("sandbox-files", id);
  expect(after).toMatchObject({
    id: before["id"],
    metadata: { mine: 1 },
    tags: before["tags"],
    created_at: before["created_at"],
  });
  expect(after.credentials["access_token"]).not.toBe(before.credentials["access_token"]);
  expect(await all.connections()).toHaveLength(1);
  const ref = { environment: "dev", integration: "sandbox-files", id };
  const { connection } = await sidecar.client(ConnectionService).getConnection({ ref });
  expect(connection?.grantedScopes).toEqual(expect.arrayContaining(["drive", "spreadsheets", "calendar"]));
});

it.each(["before its user came back", "while the provider was asked"])(
  "does not recreate a connection that was deleted %s",
  async (when) => {
    const all = await connecting();
    const browser = all.browser();
    await browser.go(departure(all, await all.session()));
    const [item] = await all.connections();
    const id = item?.connection_id ?? "";
    const back = await broughtBackTo(all, browser, departure(all, await all.reconnectSession(id)));
    const isLate = when.startsWith("while");
    if (isLate) all.sandbox.behave({ answers: { token: [{ kind: "ordinary", holdMs: 500 }] } });
    const finished = isLate ? browser.go(back) : undefined;
    if (isLate) await expect.poll(() => tokenCalls(all)).toBe(2);
    await all.sidecar.rest("DELETE", `/connections/${id}?provider_config_key=sandbox-files`);
    expect((await (finished ?? browser.go(back))).status).toBe(400);
    expect(await all.connections()).toEqual([]);
  },
);

it("O20 proves by PKCE that it started the flow, unless the provider cannot, and logs nothing of it", async () => {
  const all = await connecting({
    sandbox: { behaviour: { consent: "allow", pkce: "required" } },
    providers: (origin) => [
      {
        name: "plain",
        oauth2: {
          authorization_url: `${origin}/oauth2/auth`,
          token_url: `${origin.replace("http:", "https:")}/oauth2/token`,
          no_pkce: true,
        },
        proxy: { base_url: origin.replace("http:", "https:") },
      },
    ],
    integrations: [
      {
        environment: "dev",
        key: "plain",
        provider: "plain",
        oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
      },
    ],
  });
  const browser = all.browser();
  const token = await all.session();
  const back = await broughtBackTo(all, browser, departure(all, token));
  expect((await browser.go(back)).status).toBe(200);
  const [{ target = "" } = {}] = all.sandbox.seen().last.authorization ?? [];
  const asked = new URL(target, "http://x").searchParams;
  const [{ body = "" } = {}] = all.sandbox.seen().last.token ?? [];
  const sent = new URLSearchParams(body);
  const verifier = sent.get("code_verifier") ?? "";
  expect(asked.get("code_challenge_method")).toBe("S256");
  expect(createHash("sha256").update(verifier).digest("base64url")).toBe(asked.get("code_challenge"));
  expect(verifier).toMatch(/^[A-Za-z0-9_-]{43}$/);
  all.sandbox.behave({ pkce: "refused" });
  expect((await browser.go(departure(all, await all.session(), {}, "plain"))).status).toBe(200);
  const state = asked.get("state") ?? "";
  const code = sent.get("code") ?? "";
  const logged = all.sidecar.logged.join("\n");
  for (const secret of [verifier, state, code, token, asked.get("nonce") ?? "", ...browser.cookies.values()]) {
    expect(secret.length).toBeGreaterThan(10);
    expect(logged).not.toContain(secret);
  }
});

it("O20 encrypts everything that it stores of an open authorization", async () => {
  const all = await connecting();
  const browser = all.browser();
  const token = await all.session();
  const back = new URL(await broughtBackTo(all, browser, departure(all, token, { ws_client_id: "w".repeat(22) })));
  const { broker } = all.sidecar.sidecar;
  expect(broker.storeStatus().writable).toBe(true);
  await all.sidecar.stop();
  const { readdirSync, readFileSync } = await import("node:fs");
  const { join } = await import("node:path");
  const files = readdirSync(all.sidecar.folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const bytes = Buffer.concat(files.map((one) => readFileSync(join(one.parentPath, one.name)))).toString("latin1");
  expect(bytes).toContain("pending-authorization");
  for (const secret of [back.searchParams.get("state") ?? "", token, "w".repeat(22), ...browser.cookies.values()]) {
    expect(bytes).not.toContain(secret);
  }
});

it("refuses authorization parameters that only latchkey may set", async () => {
  const all = await connecting();
  for (const name of [
    "redirect_uri",
    "state",
    "client_id",
    "code_challenge",
    "scope",
    "response_mode",
    "Redirect_URI",
    "redirect.uri",
    "state[]",
    "state\0",
  ]) {
    const response = await all
      .browser()
      .get(departure(all, await all.session(), { [`authorization_params[${name}]`]: "x" }));
    expect([name, response.status]).toEqual([name, 400]);
  }
  const response = await all.browser().get(
    departure(all, await all.session(), {
      "authorization_params[prompt]": "undefined",
      "authorization_params[login_hint]": "bob@example.com",
    }),
  );
  const sent = new URL(response.headers.get("location") ?? "").searchParams;
  expect([sent.get("prompt"), sent.get("login_hint"), sent.get("access_type")]).toEqual([
    null,
    "bob@example.com",
    "offline",
  ]);
});

it("asks the provider about a new connection, and files the hash of its user's address", async () => {
  const all = await connecting();
  await all.browser().go(departure(all, await all.session(), {}, "sandbox-calendar"));
  const [item] = await all.connections();
  const { connection_config } = await all.connection("sandbox-calendar", item?.connection_id ?? "");
  const hash = createHash("sha256").update("nango.emailAddressHash.v1:ada@example.com").digest("hex");
  expect(connection_config).toEqual({ emailAddressHash: hash });
});

it("creates the connection even if the provider does not describe it", async () => {
  const all = await connecting();
  all.sandbox.behave({ answers: { calendar: [{ kind: "error", status: 500, error: "x" }] } });
  const page = await all.browser().go(departure(all, await all.session(), {}, "sandbox-calendar"));
  expect(page.status).toBe(200);
  const [item] = await all.connections();
  expect((await all.connection("sandbox-calendar", item?.connection_id ?? ""))["connection_config"]).toEqual({});
});

it.each([
  ["invalid_grant", 400, "did not accept"],
  ["invalid_client", 401, "Tell the operator of the application"],
  ["temporarily_unavailable", 503, "could not be reached"],
])("explains %s to the end user", async (error, status, text) => {
  const all = await connecting();
  all.sandbox.behave({ answers: { token: [{ kind: "error", status, error }] } });
  const page = await all.browser().go(departure(all, await all.session()));
  expect([page.status, page.text]).toEqual([400, expect.stringContaining(text)]);
  expect(await all.connections()).toEqual([]);
});

it("O25 stops OAuth 1 without a confirmed callback, without a verifier, and when it was denied", async () => {
  const all = await connecting();
  const browser = all.browser();
  const go = async () => departure(all, await all.session(), {}, "sandbox-oauth1");
  all.sandbox.behave({ callbackConfirmed: false });
  expect((await browser.go(await go())).status).toBe(424);
  all.sandbox.behave({ callbackConfirmed: true });
  const back = new URL(await broughtBackTo(all, browser, await go()));
  back.searchParams.delete("oauth_verifier");
  expect((await browser.go(back.href)).text).toContain("no verifier");
  all.sandbox.behave({ consent: "deny" });
  expect((await browser.go(await go())).text).toContain("Access was not allowed");
  expect(await all.connections()).toEqual([]);
  all.sandbox.behave({ consent: "allow" });
  expect((await browser.go(await go())).status).toBe(200);
  const [item] = await all.connections();
  expect((await all.connection("sandbox-oauth1", item?.connection_id ?? "")).credentials).toMatchObject({
    type: "OAUTH1",
  });
});

it("O25 knows a denial that names the temporary token in `denied` alone", async () => {
  const all = await connecting();
  const browser = all.browser();
  const back = new URL(await broughtBackTo(all, browser, departure(all, await all.session(), {}, "sandbox-oauth1")));
  const token = back.searchParams.get("oauth_token") ?? "";
  expect((await browser.go(callbackOf(all, `denied=${token}`))).text).toContain("Access was not allowed");
  expect((await browser.go(back.href)).status).toBe(400);
});

it("O25 binds OAuth 1 to the browser as well", async () => {
  const all = await connecting();
  const back = await broughtBackTo(all, all.browser(), departure(all, await all.session(), {}, "sandbox-oauth1"));
  expect((await all.browser().go(back)).text).toContain("another browser");
  expect(await all.connections()).toEqual([]);
});
