import { createServer, type RequestListener } from "node:http";
import type { TLSSocket } from "node:tls";
import Provider from "oidc-provider";
import { describe, expect, it, onTestFinished } from "vitest";
import { describeListener, listen } from "../../src/base/http/listener.ts";
import { ConnectSessionService, DeviceAuthorization_State } from "../../src/gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../src/gen/latchkey/v1/log_pb.ts";
import { createAuthority, pem } from "../cases/control-plane/certificates.ts";
import { createTestBrowser, type Page, type TestBrowser } from "../support/sidecar/connecting.ts";
import { startTestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { serve } from "../unit/broker/asking.ts";

/** Changes an ID token in transit. */
type Tamper = (idToken: string) => string;

/**
 * An independent authorization server: PKCE is required, `iss` is always sent, and consent is given by hand. A test can
 * change the responses of its token endpoint.
 */
async function foreignServer(redirectUri: string, tamper: { current: Tamper } = { current: (idToken) => idToken }) {
  const server = createServer();
  await listen(server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  const issuer = describeListener(server, false);
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "app",
        client_secret: "app-secret",
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      },
    ],
    pkce: { required: () => true },
    scopes: ["openid", "offline_access", "files"],
    features: {
      devInteractions: { enabled: true },
      pushedAuthorizationRequests: { enabled: true },
      deviceFlow: { enabled: true },
    },
  });
  provider.use(async (ctx, next) => {
    await next();
    const { body } = ctx;
    if (typeof body === "object" && body !== null && "id_token" in body) {
      ctx.body = { ...body, id_token: tamper.current(String(body.id_token)) };
    }
  });
  server.on("request", provider.callback());
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return issuer;
}

/** Signs in and agrees, as its pages ask for it, and returns where the browser is sent back to. */
async function agreed(browser: TestBrowser, first: Page, publicUrl: string): Promise<string> {
  let page = first;
  for (let i = 0; i < 5; i += 1) {
    const [, action = ""] = /action="([^"]+)"/.exec(page.text) ?? [];
    const [, prompt = ""] = /name="prompt" value="([^"]+)"/.exec(page.text) ?? [];
    const form = new URLSearchParams({ prompt, login: "ada", password: "x" });
    const response = await browser.post(action, form);
    const next = new URL(response.headers.get("location") ?? "", action).href;
    const arrived = await browser.toward(next, publicUrl);
    if (typeof arrived === "string") return arrived;
    page = arrived;
  }
  throw new Error("the pages have no end");
}

it.each([
  ["goes with the browser", { pushed: false }],
  ["is put down beforehand", { pushed: true }],
])(
  "connects at a foreign authorization server that wants PKCE and names itself; the request %s",
  async (_, { pushed }) => {
    const publicUrl = "http://127.0.0.1:9";
    const issuer = await foreignServer(`${publicUrl}/oauth/callback`);
    const secure = issuer.replace("http:", "https:");
    const config = {
      environments: [{ name: "dev" }],
      providers: [
        {
          name: "foreign",
          oauth2: {
            authorization_url: `${issuer}/auth`,
            token_url: `${secure}/token`,
            issuer,
            issuer_always: true,
            ...(pushed ? { pushed_authorization_url: `${secure}/request` } : {}),
            authorization_params: { prompt: "consent" },
            default_scopes: ["openid", "offline_access", "files"],
          },
          proxy: { base_url: secure },
        },
      ],
      integrations: [
        {
          environment: "dev",
          key: "foreign",
          provider: "foreign",
          oauth: { client_id: "app", client_secret: { env: "APP_SECRET" } },
        },
      ],
    };
    const sidecar = await startTestSidecar({
      env: {
        APP_SECRET: "app-secret",
        LATCHKEY_PUBLIC_URL: publicUrl,
        LATCHKEY_ALLOW_PRIVATE: issuer,
        LATCHKEY_CONFIG: "/latchkey.yaml",
      },
      files: { "/latchkey.yaml": JSON.stringify(config) },
    });
    const { body } = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
    const browser = createTestBrowser();
    const departure = `${sidecar.data}/oauth/connect/foreign?connect_session_token=${body.data.token}`;
    const sentTo = new URL((await browser.get(departure)).headers.get("location") ?? "");
    expect([...sentTo.searchParams.keys()].includes("state")).toBe(!pushed);
    expect(sentTo.searchParams.has("request_uri")).toBe(pushed);
    const back = await agreed(browser, await browser.go(departure), publicUrl);
    expect(new URL(back).searchParams.get("iss")).toBe(issuer);
    const done = await browser.go(back.replace(publicUrl, sidecar.data));
    expect([done.status, done.text]).toEqual([200, expect.stringContaining("is connected")]);
    const [item] = (await sidecar.rest("GET", "/connections")).body.connections;
    const ref = { environment: "dev", integration: "foreign", id: item.connection_id };
    const shown = await sidecar.client(ConnectionService).getConnection({ ref });
    expect(shown.connection?.grantedScopes).toEqual(expect.arrayContaining(["openid", "offline_access"]));
    const full = await sidecar.rest(
      "GET",
      `/connections/${item.connection_id}?provider_config_key=foreign&refresh_token=true`,
    );
    expect(full.body.credentials).toMatchObject({
      type: "OAUTH2",
      access_token: expect.any(String),
      refresh_token: expect.any(String),
    });
  },
);

it("connects a user who enters a code at a foreign authorization server's pages", async () => {
  const issuer = await foreignServer("http://127.0.0.1:9/oauth/callback");
  const secure = issuer.replace("http:", "https:");
  const config = {
    environments: [{ name: "dev" }],
    providers: [
      {
        name: "foreign",
        oauth2: {
          authorization_url: `${issuer}/auth`,
          token_url: `${secure}/token`,
          device_authorization_url: `${secure}/device/auth`,
          issuer,
          jwks_url: `${secure}/jwks`,
          default_scopes: ["openid", "offline_access", "files"],
        },
        proxy: { base_url: secure },
      },
    ],
    integrations: [
      {
        environment: "dev",
        key: "foreign",
        provider: "foreign",
        oauth: { client_id: "app", client_secret: { env: "APP_SECRET" } },
      },
    ],
  };
  const sidecar = await startTestSidecar({
    env: { APP_SECRET: "app-secret", LATCHKEY_ALLOW_PRIVATE: issuer, LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": JSON.stringify(config) },
  });
  const sessions = sidecar.client(ConnectSessionService);
  const { authorization: begun } = await sessions.beginDeviceAuthorization({
    environment: "dev",
    integration: "foreign",
    connectionId: "ada",
  });
  const browser = createTestBrowser();
  let page = await browser.go(begun?.verificationUriComplete ?? "");
  // The code, the sign-in, and the consent.
  for (let i = 0; i < 6 && !page.text.includes("Sign-in Success"); i += 1) {
    const [, action = ""] = /action="([^"]+)"/.exec(page.text) ?? [];
    const hidden = [...page.text.matchAll(/type="hidden" name="([^"]+)" value="([^"]*)"/g)];
    const form = new URLSearchParams({ login: "ada", password: "x" });
    for (const [, name = "", value = ""] of hidden) form.set(name, value);
    const response = await browser.post(action, form);
    const location = response.headers.get("location");
    page =
      location === null ? { ...page, text: await response.text() } : await browser.go(new URL(location, action).href);
  }
  expect(page.text).toContain("Sign-in Success");
  const shown = async () => (await sessions.getDeviceAuthorization({ id: begun?.id ?? "" })).authorization;
  await expect.poll(async () => (await shown())?.state, { interval: 200 }).toBe(DeviceAuthorization_State.CONNECTED);
  const { body } = await sidecar.rest("GET", "/connections/ada?provider_config_key=foreign&refresh_token=true");
  expect(body.credentials).toMatchObject({ access_token: expect.any(String), refresh_token: expect.any(String) });
});

/** The same token with another end user in it, under the signature that it had. */
const forged: Tamper = (idToken) => {
  const [head = "", claims = "", signature = ""] = idToken.split(".");
  const eve = { ...JSON.parse(Buffer.from(claims, "base64url").toString()), sub: "eve" };
  return `${head}.${Buffer.from(JSON.stringify(eve)).toString("base64url")}.${signature}`;
};

it.each([
  ["the description", (secure: string) => ({ jwks_url: `${secure}/jwks` })],
  ["the metadata", (secure: string) => ({ metadata_url: `${secure}/.well-known/openid-configuration` })],
])("believes the id_tokens of a foreign server by the keys that %s names, and no other", async (_, keysAt) => {
  const publicUrl = "http://127.0.0.1:9";
  const tamper: { current: Tamper } = { current: (idToken) => idToken };
  const issuer = await foreignServer(`${publicUrl}/oauth/callback`, tamper);
  const secure = issuer.replace("http:", "https:");
  const config = {
    environments: [{ name: "dev" }],
    providers: [
      {
        name: "foreign",
        oauth2: {
          authorization_url: `${issuer}/auth`,
          token_url: `${secure}/token`,
          issuer,
          ...keysAt(secure),
          authorization_params: { prompt: "consent" },
          default_scopes: ["openid", "offline_access", "files"],
        },
        proxy: { base_url: secure },
      },
    ],
    integrations: [
      {
        environment: "dev",
        key: "foreign",
        provider: "foreign",
        oauth: { client_id: "app", client_secret: { env: "APP_SECRET" } },
      },
    ],
  };
  const sidecar = await startTestSidecar({
    env: {
      APP_SECRET: "app-secret",
      LATCHKEY_PUBLIC_URL: publicUrl,
      LATCHKEY_ALLOW_PRIVATE: issuer,
      LATCHKEY_CONFIG: "/latchkey.yaml",
    },
    files: { "/latchkey.yaml": JSON.stringify(config) },
  });
  const connect = async () => {
    const { body } = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
    const browser = createTestBrowser();
    const page = await browser.go(`${sidecar.data}/oauth/connect/foreign?connect_session_token=${body.data.token}`);
    return browser.go((await agreed(browser, page, publicUrl)).replace(publicUrl, sidecar.data));
  };
  const connections = async () => (await sidecar.rest("GET", "/connections")).body.connections;

  tamper.current = forged;
  const refused = await connect();
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("id_token, which says who you are")]);
  expect(await connections()).toEqual([]);
  const { logs } = await sidecar.client(LogService).listLogs({ environment: "dev", operation: "auth.authorize" });
  const fields = { reason: "id_token", code: "id_token_signature", credentials: "oauth2" };
  expect(logs.flatMap(({ lines }) => lines.map((line) => line.fields))).toEqual([fields]);

  tamper.current = (idToken) => idToken;
  for (let i = 0; i < 2; i += 1) {
    const done = await connect();
    expect([done.status, done.text]).toEqual([200, expect.stringContaining("is connected")]);
  }
  const [{ connection_id: one }, { connection_id: other }] = await connections();
  const get = async (id: string, more = "") =>
    (await sidecar.rest("GET", `/connections/${id}?provider_config_key=foreign${more}`)).body.credentials;
  const before = { one: await get(one), other: await get(other) };
  expect([before.one.raw.id_token, before.other.raw.id_token]).toEqual([
    expect.stringMatching(/^ey/),
    expect.stringMatching(/^ey/),
  ]);
  const renewed = await get(one, "&force_refresh=true");
  expect(renewed.access_token).not.toBe(before.one.access_token);
  expect(renewed.raw.id_token).toMatch(/^ey/);
  tamper.current = forged;
  const kept = await get(other, "&force_refresh=true");
  expect(kept.access_token).not.toBe(before.other.access_token);
  expect(kept.raw).not.toHaveProperty("id_token");
  expect(sidecar.logged.filter((line) => line.includes("id_token_signature"))).toHaveLength(2);
});

describe.skipIf(lacks("openssl"))("with a client that is known by its certificate (RFC 8705)", () => {
  it("connects, refreshes and sends requests with the integration's one certificate, and with the next one", async () => {
    const ca = createAuthority(await temporaryFolder(), "authority");
    const here = ca.issue("here", { names: "IP:127.0.0.1" });
    const own = (name: string) => {
      const { cert, key } = ca.issue(name, { names: "DNS:client.example" });
      return { clientCertificate: pem(cert).toString(), clientPrivateKey: pem(key).toString() };
    };
    const publicUrl = "http://127.0.0.1:9";
    let listener: RequestListener | undefined;
    const shown: string[] = [];
    const listening: RequestListener = (request, response) => listener?.(request, response);
    // Browsers have no certificate, and use another listener.
    const { origin: issuer } = await serve(listening);
    const { origin: guarded, port } = await serve(
      (request, response) => {
        shown.push(`${(request.socket as TLSSocket).getPeerCertificate().subject?.CN} ${request.url}`);
        listening(request, response);
      },
      { cert: pem(here.cert), key: pem(here.key), ca: pem(ca.cert), requestCert: true, rejectUnauthorized: false },
    );
    const peerOf = (ctx: { readonly socket: unknown }) => (ctx.socket as TLSSocket).getPeerX509Certificate?.();
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: "app",
          redirect_uris: [`${publicUrl}/oauth/callback`],
          grant_types: ["authorization_code", "refresh_token"],
          token_endpoint_auth_method: "tls_client_auth",
          tls_client_auth_san_dns: "client.example",
          tls_client_certificate_bound_access_tokens: true,
        },
      ],
      clientAuthMethods: ["tls_client_auth"],
      scopes: ["openid", "offline_access"],
      features: {
        devInteractions: { enabled: true },
        userinfo: { enabled: true },
        mTLS: {
          enabled: true,
          tlsClientAuth: true,
          certificateBoundAccessTokens: true,
          getCertificate: (ctx) => peerOf(ctx)?.toString(),
          certificateAuthorized: (ctx) => (ctx.socket as TLSSocket).authorized,
          certificateSubjectMatches: (ctx, _, expected) => peerOf(ctx)?.subjectAltName === `DNS:${expected}`,
        },
      },
    });
    listener = provider.callback();
    const first = own("first");
    const config = {
      environments: [{ name: "dev" }],
      providers: [
        {
          name: "foreign",
          oauth2: {
            authorization_url: `${issuer}/auth`,
            token_url: `${guarded}/token`,
            jwks_url: `${guarded}/jwks`,
            issuer,
            token_endpoint_auth_method: "tls_client_auth",
            authorization_params: { prompt: "consent" },
            default_scopes: ["openid", "offline_access"],
          },
          proxy: { base_url: guarded },
        },
      ],
    };
    const sidecar = await startTestSidecar({
      env: {
        LATCHKEY_PUBLIC_URL: publicUrl,
        LATCHKEY_ALLOW_PRIVATE: `127.0.0.1:${port}`,
        LATCHKEY_PROVIDER_CA: "/ca.pem",
        LATCHKEY_CONFIG: "/latchkey.yaml",
      },
      files: { "/latchkey.yaml": JSON.stringify(config), "/ca.pem": pem(ca.cert).toString() },
    });
    const integrations = sidecar.client(IntegrationService);
    const integration = { environment: "dev", key: "foreign", provider: "foreign", oauth: { clientId: "app" } };
    await integrations.createIntegration({ integration });
    const connect = async () => {
      const { body } = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
      const browser = createTestBrowser();
      const page = await browser.go(`${sidecar.data}/oauth/connect/foreign?connect_session_token=${body.data.token}`);
      return browser.go((await agreed(browser, page, publicUrl)).replace(publicUrl, sidecar.data));
    };
    const change = async (secrets: typeof first) =>
      integrations.updateIntegration({
        integration: { ...integration, secrets },
        updateMask: { paths: ["secrets.client_certificate", "secrets.client_private_key"] },
      });
    // Without a certificate the request itself fails.
    expect([(await connect()).status, shown]).toEqual([400, []]);
    await change(first);
    const done = await connect();
    expect([done.status, done.text]).toEqual([200, expect.stringContaining("is connected")]);
    const [{ connection_id: id }] = (await sidecar.rest("GET", "/connections")).body.connections;
    const headers = { "provider-config-key": "foreign", "connection-id": id };
    const me = () => sidecar.rest("GET", "/proxy/me", { headers });
    // The token is bound to the certificate: by another, the server would not take it.
    expect(await me()).toMatchObject({ status: 200, body: { sub: "ada" } });
    expect(shown).toEqual(expect.arrayContaining(["first /token", "first /me"]));

    await change(own("second"));
    const at = `/connections/${id}?provider_config_key=foreign&force_refresh=true`;
    expect((await sidecar.rest("GET", at)).status).toBe(200);
    await expect.poll(async () => (await me()).body, { interval: 50 }).toMatchObject({ sub: "ada" });
    expect(shown).toEqual(expect.arrayContaining(["second /token", "second /me"]));
  });
});
