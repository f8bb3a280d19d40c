import { createHash } from "node:crypto";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { Provider } from "oidc-provider";
import { describe, expect, it } from "vitest";
import { newDpopKey } from "../../../src/auth/oauth2/dpop-key.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { Integration_Reflection, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type Answering, ok, type RecordedRequest, startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { verifiedProof } from "../../support/wire/dpop.ts";
import { type Calling, call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";
import { serve } from "../../unit/broker/asking.ts";
import { createAuthority, pem } from "../control-plane/certificates.ts";

const token = "their-bound-token-0123456789";
const app = { client_id: "app", client_secret: "the-secret-of-the-app" };

interface Bound {
  readonly dpopKey?: string;
  readonly reflection?: Integration_Reflection;
  /** Another port that the credentials may be sent to. */
  readonly alsoAt?: number;
}

/** The connections `ada` and `bob`, each with a token that is bound to a key. */
async function boundTo(answer: Answering, { dpopKey, reflection, alsoAt }: Bound = {}) {
  const provider = await startProvider(answer);
  const at = `https://127.0.0.1:${provider.port}`;
  const running = await startProxied(provider.port, {
    provider: {
      auth: { case: "oauth2", value: { authorizationUrl: `${at}/auth`, tokenUrl: `${at}/token`, dpop: true } },
    },
    integration: { credentials: { type: "OAUTH2", ...app } },
    credentials: { type: "OAUTH2", access_token: "at first" },
    env: { LATCHKEY_ALLOW_PRIVATE: [provider.port, alsoAt ?? 1].map((port) => `http://127.0.0.1:${port}`).join() },
  });
  const keys = new Map([
    ["ada", dpopKey ?? newDpopKey()],
    ["bob", newDpopKey()],
  ]);
  for (const [id, key] of keys) {
    const value = { accessToken: `${token}-${id}`, refreshToken: `refresh-${id}`, dpopKey: key };
    await running.client(ConnectionService).importConnection({
      connection: { environment: "dev", integration: "here", id, credentials: { kind: { case: "oauth2", value } } },
    });
  }
  if (alsoAt !== undefined) {
    const hosts = [{ origin: `https://127.0.0.1:${alsoAt}` }];
    await running.client(IntegrationService).updateIntegration({
      integration: { environment: "dev", key: "here", hosts },
      updateMask: { paths: ["hosts"] },
    });
  }
  if (reflection !== undefined) {
    await running.client(IntegrationService).updateIntegration({
      integration: { environment: "dev", key: "here", reflection },
      updateMask: { paths: ["reflection"] },
    });
  }
  const ask = (path: string, { headers = {}, ...more }: Calling = {}) =>
    call(`${running.data}/proxy${path}`, { headers: { ...running.proxyHeaders, ...headers }, ...more });
  const requests = () => provider.connections.flatMap((one) => one.requests());
  return { provider, running, ask, requests };
}

const valuesOf = ({ fields }: RecordedRequest, name: string) =>
  fields.filter(([one]) => one === name).map(([, value]) => value);
const claimsOf = (request: RecordedRequest | undefined) =>
  verifiedProof(request === undefined ? "" : (valuesOf(request, "dpop")[0] ?? "")).claims;

const answerOf = (status: string, fields: string, body = "{}") =>
  `HTTP/1.1 ${status}\r\n${fields}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const wantsNonce = (nonce: string) =>
  answerOf(
    "401 Unauthorized",
    `WWW-Authenticate: DPoP error="use_dpop_nonce"\r\nDPoP-Nonce: ${nonce}\r\n`,
    '{"error":"use_dpop_nonce"}',
  );

const socketRequest = (lines: string) =>
  `GET /proxy/socket?x=1 HTTP/1.1\r\nHost: localhost\r\n${lines}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`;

/** Takes a proof with the nonce that it would have now, and nothing else. */
function nonceProvider(nonces: readonly string[]) {
  let at = 0;
  const answer: Answering = (request, socket, count) => {
    const wanted = nonces[Math.min(at, nonces.length - 1)] ?? "";
    if (claimsOf(request)["nonce"] !== wanted) socket.write(wantsNonce(wanted));
    else ok(request, socket, count);
  };
  return { answer, next: () => (at += 1) };
}

describe("a token that is bound to a key", () => {
  it("is sent a new proof with each request", async () => {
    const { provider, ask, requests } = await boundTo(ok);
    const before = Math.floor(Date.now() / 1_000);
    for (const path of ["/a/b%20c?q=1", "/a/b%20c?q=1"]) expect((await ask(path)).status).toBe(200);
    expect((await ask("/up", { method: "POST", body: "content" })).body).toContain("content");
    const claims = requests().map(claimsOf);
    for (const request of requests()) {
      expect(valuesOf(request, "authorization")).toEqual([`DPoP ${token}-ada`]);
      expect(valuesOf(request, "dpop")).toHaveLength(1);
    }
    const origin = `http://127.0.0.1:${provider.port}`;
    expect(claims.map(({ htm, htu }) => `${htm} ${htu}`)).toEqual([
      `GET ${origin}/a/b%20c`,
      `GET ${origin}/a/b%20c`,
      `POST ${origin}/up`,
    ]);
    expect(new Set(claims.map(({ jti }) => jti)).size).toBe(3);
    for (const { iat, jti } of claims) {
      expect(iat).toBeGreaterThanOrEqual(before);
      expect(String(jti).length).toBeGreaterThanOrEqual(16);
    }
  });

  it("is sent the proof only, and nothing of the caller's in its place", async () => {
    const { provider, running, ask, requests } = await boundTo(ok);
    const forged = { DPoP: "forged-1", "nango-proxy-dpop": "forged-2", "Nango-Proxy-Authorization": "DPoP forged-3" };
    await ask("/", { headers: { ...forged, "proxy-authorization": `Bearer ${secretKey}` } });
    const lines = running.proxyLines.replace(`Bearer ${secretKey}`, "DPoP forged-4");
    await running.raw(
      `POST /proxy/up HTTP/1.1\r\nHost: localhost\r\n${lines}latchkey-key: ${secretKey}\r\nDPOP: forged-5\r\n` +
        "Trailer: DPoP\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nDPoP: forged-6\r\nAuthorization: forged-7\r\n\r\n",
    );
    expect(requests()).toHaveLength(2);
    expect(provider.received()).not.toContain("forged");
    expect(provider.received()).not.toContain(secretKey);
    for (const request of requests()) expect(valuesOf(request, "dpop")).toHaveLength(1);
  });

  it("is shown to the caller by no provider that echoes it", async () => {
    const echo: Answering = (request, socket) =>
      socket.write(answerOf("200 OK", "", JSON.stringify({ echo: valuesOf(request, "authorization")[0] })));
    const { ask } = await boundTo(echo, { reflection: Integration_Reflection.MASK });
    const { body } = await ask("/echo");
    expect(body).toContain('"echo":"DPoP ****');
    expect(body).not.toContain(token);
  });

  it("is not imported with an invalid key", async () => {
    const refused = await boundTo(ok, { dpopKey: "no key" }).catch((error: unknown) => error);
    if (!(refused instanceof ConnectError)) throw new Error("what cannot be proven was imported");
    expect([refused.code, refused.message]).toEqual([Code.InvalidArgument, expect.not.stringContaining("no key")]);
  });

  it("goes with proofs of the same key once it was moved as JSON", async () => {
    const { running, ask, requests } = await boundTo(ok);
    await ask("/here");
    const { body } = await running.rest("GET", "/connections/ada?provider_config_key=here&refresh_token=true");
    const moved = { provider_config_key: "here", connection_id: "moved", credentials: body.credentials };
    const target = await running.rest("POST", "/connections", { body: moved });
    expect([target.status, target.body.credentials]).toEqual([201, body.credentials]);
    const headers = { ...running.proxyHeaders, "connection-id": "moved" };
    expect((await call(`${running.data}/proxy/there`, { headers })).status).toBe(200);
    const [first, second] = requests().map((request) => verifiedProof(valuesOf(request, "dpop")[0] ?? "").header.jwk);
    expect([requests().length, second]).toEqual([2, first]);
  });

  it("opens a WebSocket", async () => {
    const { running, requests } = await boundTo(ok);
    await running.raw(socketRequest(running.proxyLines));
    expect(requests()).toHaveLength(1);
    expect(claimsOf(requests()[0])).toMatchObject({ htm: "GET", htu: expect.stringMatching(/\/socket$/) });
  });
});

describe("a provider that wants a nonce", () => {
  it("gets its nonce after its first challenge, and from then on at once", async () => {
    const { answer, next } = nonceProvider(["one", "two"]);
    const { running, ask, requests } = await boundTo(answer);
    expect((await ask("/first")).status).toBe(200);
    expect((await ask("/second")).status).toBe(200);
    expect(requests().map((one) => claimsOf(one)["nonce"])).toEqual([undefined, "one", "one"]);
    next();
    expect((await ask("/third")).status).toBe(200);
    expect((await ask("/fourth", { method: "POST", body: "x" })).status).toBe(200);
    expect(requests().map((one) => claimsOf(one)["nonce"])).toEqual([undefined, "one", "one", "one", "two", "two"]);
    // The token was fine.
    expect(requests().filter(({ line }) => line.includes("/token"))).toEqual([]);
    expect(await running.metric("latchkey_proxy_refusals_total")).toBe(0);
  });

  it("may give the next one with any answer", async () => {
    const rolling: Answering = (_request, socket, count) =>
      socket.write(answerOf("200 OK", `DPoP-Nonce: after-${count}\r\n`));
    const { ask, requests } = await boundTo(rolling);
    for (let i = 0; i < 3; i += 1) await ask("/");
    expect(requests().map((one) => claimsOf(one)["nonce"])).toEqual([undefined, "after-0", "after-1"]);
  });

  it("is sent one more request and no third; its second answer is final", async () => {
    let count = 0;
    const { ask, requests } = await boundTo((_request, socket) => {
      count += 1;
      socket.write(wantsNonce(`n${count}`));
    });
    const answer = await ask("/");
    expect([answer.status, faultOf(answer), answer.body]).toEqual([401, undefined, '{"error":"use_dpop_nonce"}']);
    expect(requests().map(({ line }) => line)).toEqual(["GET / HTTP/1.1", "GET / HTTP/1.1"]);
  });

  it("is not sent an unsafe request again: the caller sees why, and its next request works", async () => {
    const { answer } = nonceProvider(["one"]);
    const { ask, requests } = await boundTo(answer);
    const first = await ask("/up", { method: "POST", body: "x" });
    expect([first.status, fieldOf(first, "dpop-nonce")]).toEqual([401, "one"]);
    expect((await ask("/up", { method: "POST", body: "x" })).status).toBe(200);
    expect(requests()).toHaveLength(2);
  });

  it.each([
    ["POST", "all of it"],
    ["DELETE", ""],
  ])("is sent again a %s that the caller wants to be sent again, body and all", async (method, body) => {
    const { answer } = nonceProvider(["one"]);
    const { ask, requests } = await boundTo(answer);
    const sent = await ask("/up", { method, ...(body === "" ? {} : { body }), headers: { retries: "1" } });
    expect([sent.status, sent.body]).toEqual([200, expect.stringContaining(body)]);
    expect(requests()).toHaveLength(2);
  });

  it("is distinguished from one that rejects the token and sends a nonce too", async () => {
    const refusing: Answering = (request, socket, count) => {
      const refusal = 'WWW-Authenticate: DPoP error="invalid_token"\r\nDPoP-Nonce: later\r\n';
      const tokens = '{"access_token":"their-next-token","token_type":"DPoP","expires_in":3600}';
      if (request.line.startsWith("POST /token ")) socket.write(answerOf("200 OK", "", tokens));
      else if (valuesOf(request, "authorization")[0] === "DPoP their-next-token") ok(request, socket, count);
      else socket.write(answerOf("401 Unauthorized", refusal));
    };
    const { ask, requests } = await boundTo(refusing);
    expect((await ask("/a")).status).toBe(200);
    // In the order of connections: token requests use a connection of their own.
    expect(requests().map(({ line }) => line.slice(0, -" HTTP/1.1".length))).toEqual([
      "GET /a",
      "GET /a",
      "POST /token",
    ]);
    expect(claimsOf(requests()[1])["nonce"]).toBe("later");
  });

  it("gets no nonce of another host's", async () => {
    const [one, other] = [nonceProvider(["one"]), nonceProvider(["other"])];
    const elsewhere = await startProvider(other.answer);
    const { ask, requests } = await boundTo(one.answer, { alsoAt: elsewhere.port });
    await ask("/here");
    const headers = { "base-url-override": `https://127.0.0.1:${elsewhere.port}` };
    expect((await ask("/there", { headers })).status).toBe(200);
    expect((await ask("/here")).status).toBe(200);
    const there = elsewhere.connections.flatMap((connection) => connection.requests());
    expect(there.map((request) => claimsOf(request)["nonce"])).toEqual([undefined, "other"]);
    expect(requests().map((request) => claimsOf(request)["nonce"])).toEqual([undefined, "one", "one"]);
  });

  it("gives a nonce to a WebSocket, for the next", async () => {
    const { answer } = nonceProvider(["one"]);
    const { running, requests } = await boundTo(answer);
    for (let i = 0; i < 2; i += 1) await running.raw(socketRequest(running.proxyLines));
    expect(requests().map((one) => claimsOf(one)["nonce"])).toEqual([undefined, "one"]);
  });

  it("gets no nonce of another connection's", async () => {
    const { answer } = nonceProvider(["one"]);
    const { ask, requests } = await boundTo(answer);
    await ask("/ada");
    await ask("/bob", { headers: { "connection-id": "bob" } });
    expect(requests().map((one) => claimsOf(one)["nonce"])).toEqual([undefined, "one", undefined, "one"]);
  });

  it("cannot set an invalid nonce", async () => {
    const { ask, requests } = await boundTo((_request, socket) => socket.write(wantsNonce('a"b')));
    expect((await ask("/up", { method: "POST" })).status).toBe(401);
    await ask("/up", { method: "POST" });
    const asked = requests().filter(({ line }) => line.includes("/up"));
    expect(asked.map((one) => claimsOf(one)["nonce"])).toEqual([undefined, undefined]);
  });
});

describe("a token of the application's own that is bound to a key", () => {
  /** Issues tokens to any client that proves a key, and accepts only the last token of each key, with that key. */
  async function machine() {
    const keys: string[] = [];
    let good = "";
    let now = Date.now();
    const keyOf = (request: RecordedRequest) => {
      const { x, y } = verifiedProof(valuesOf(request, "dpop")[0] ?? "").header.jwk;
      return `${x} ${y}`;
    };
    const refusal = 'WWW-Authenticate: DPoP error="invalid_token"\r\n';
    const provider = await startProvider((request, socket, count) => {
      if (request.line.startsWith("POST /token ")) {
        keys.push(keyOf(request));
        good = `machine-token-${keys.length}`;
        const given = { access_token: good, token_type: "DPoP", expires_in: 3_600 };
        socket.write(answerOf("200 OK", "", JSON.stringify(given)));
        return;
      }
      const isGood = valuesOf(request, "authorization")[0] === `DPoP ${good}`;
      const ath = createHash("sha256").update(good).digest("base64url");
      const isProven = isGood && keyOf(request) === keys.at(-1) && claimsOf(request)["ath"] === ath;
      if (isProven) ok(request, socket, count);
      else socket.write(answerOf("401 Unauthorized", refusal));
    });
    const at = `https://127.0.0.1:${provider.port}`;
    const running = await startProxied(provider.port, {
      provider: { auth: { case: "oauth2Client", value: { tokenUrl: `${at}/token`, dpop: true } } },
      credentials: { type: "OAUTH2_CC", ...app },
      now: () => now,
    });
    const ref = { environment: "dev", integration: "here", id: "ada" };
    return {
      running,
      keys,
      ref,
      ask: (id = "ada") =>
        call(`${running.data}/proxy/here`, { headers: { ...running.proxyHeaders, "connection-id": id } }),
      later: () => {
        now += 7_200_000;
      },
      async held(id = "ada") {
        const connections = running.client(ConnectionService);
        const { credentials } = await connections.getConnection({ ref: { ...ref, id }, includeCredentials: true });
        if (credentials?.kind.case !== "oauth2Client") throw new Error("it has other credentials");
        return credentials.kind.value;
      },
    };
  }

  it("goes with a proof of that key, and the next token is bound to the same", async () => {
    const { ask, later, held, keys } = await machine();
    expect((await ask()).status).toBe(200);
    const { dpopKey, token: first } = await held();
    expect([dpopKey, first]).toEqual([expect.stringContaining("BEGIN PRIVATE KEY"), "machine-token-1"]);
    later();
    expect((await ask()).status).toBe(200);
    expect((await ask()).status).toBe(200);
    expect(await held()).toMatchObject({ dpopKey, token: "machine-token-2" });
    expect([keys.length, new Set(keys).size]).toEqual([2, 1]);
  });

  it("keeps the key that it was first got with, when an end user has typed the client in", async () => {
    const { running, ask, held, keys } = await machine();
    const { body } = await running.rest("POST", "/connect/sessions", { body: { end_user: { id: "eve" } } });
    const typed = { client_id: "of-eve", client_secret: "secret-of-eve" };
    const path = `/oauth2/auth/here?connect_session_token=${body.data.token}`;
    const made = await running.rest("POST", path, { body: typed });
    expect(made.status).toBe(200);
    const id = made.body.connectionId;
    expect((await ask(id)).status).toBe(200);
    expect([keys.length, (await held(id)).dpopKey]).toEqual([1, expect.stringContaining("BEGIN PRIVATE KEY")]);
  });

  it("shows its key only to readers of credentials that request it", async () => {
    const { running, ask, later, held, ref } = await machine();
    expect((await ask()).status).toBe(200);
    later();
    expect((await ask()).status).toBe(200);
    const line = (await held()).dpopKey.split("\n")[1] ?? "";
    const whole = await running.rest("GET", "/connections/ada?provider_config_key=here&refresh_token=true");
    expect(whole.body.credentials).toMatchObject({ token: "machine-token-2", dpop_key: (await held()).dpopKey });
    const shown = await running.rest("GET", "/connections/ada?provider_config_key=here");
    expect(shown.body.credentials).toMatchObject({ type: "OAUTH2_CC", token: "machine-token-2" });
    const { connection } = await running.client(ConnectionService).getConnection({ ref });
    const { logs } = await running.client(LogService).listLogs({ environment: "dev" });
    const told = [shown.body, connection, logs, running.logged].map((one) =>
      JSON.stringify(one, (_, value) => (typeof value === "bigint" ? String(value) : value)),
    );
    expect([line.length > 40, told.filter((one) => one.includes(line))]).toEqual([true, []]);
  });
});

describe.skipIf(lacks("openssl"))("with an independent server", () => {
  it.each([false, true])("is accepted, whether it requires a nonce: %s", async (isWanted) => {
    const ca = createAuthority(await temporaryFolder(), "authority");
    const own = ca.issue("here", { names: "IP:127.0.0.1" });
    const lines: string[] = [];
    let listener: Parameters<typeof serve>[0] | undefined;
    const { origin, port } = await serve(
      (request, response) => {
        lines.push(`${request.method} ${request.url}`);
        listener?.(request, response);
      },
      { cert: pem(own.cert), key: pem(own.key) },
    );
    const redirectUri = "https://app.example/callback";
    const scope = "openid offline_access";
    const oidc = new Provider(origin, {
      clients: [
        {
          ...app,
          redirect_uris: [redirectUri],
          grant_types: ["authorization_code", "refresh_token"],
          response_types: ["code"],
        },
      ],
      scopes: ["openid", "offline_access"],
      findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      ttl: { AccessToken: 3_600, RefreshToken: 86_400 },
      features: {
        devInteractions: { enabled: false },
        userinfo: { enabled: true },
        dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 1), requireNonce: () => isWanted },
      },
      cookies: { keys: ["one"] },
    });
    listener = oidc.callback();
    const grant = new oidc.Grant({ accountId: "ada", clientId: app.client_id });
    grant.addOIDCScope(scope);
    const client = await oidc.Client.find(app.client_id);
    if (client === undefined) throw new Error("has no client");
    const given = { client, accountId: "ada", grantId: await grant.save(), scope, gty: "authorization_code" };
    const made = new oidc.RefreshToken(given as unknown as ConstructorParameters<typeof oidc.RefreshToken>[0]);
    const refreshToken = await made.save();

    const running = await startProxied(port, {
      provider: {
        auth: {
          case: "oauth2",
          value: { authorizationUrl: `${origin}/auth`, tokenUrl: `${origin}/token`, dpop: true },
        },
      },
      integration: { credentials: { type: "OAUTH2", ...app } },
      credentials: { type: "OAUTH2", access_token: "at first" },
      isTls: true,
      env: { LATCHKEY_PROVIDER_CA: "/ca.pem" },
      files: { "/ca.pem": pem(ca.cert).toString() },
    });
    // The token has expired: new ones are bound to a key of latchkey.
    const value = { accessToken: "has run out", refreshToken, expiresAt: timestampFromMs(Date.now() - 60_000) };
    await running.client(ConnectionService).importConnection({
      connection: {
        environment: "dev",
        integration: "here",
        id: "ada",
        credentials: { kind: { case: "oauth2", value } },
      },
    });
    const me = () => call(`${running.data}/proxy/me`, { headers: running.proxyHeaders });
    for (let i = 0; i < 2; i += 1) {
      const answer = await me();
      expect([answer.status, answer.body]).toEqual([200, '{"sub":"ada"}']);
    }
    const ref = { environment: "dev", integration: "here", id: "ada" };
    const { credentials } = await running.client(ConnectionService).getConnection({ ref, includeCredentials: true });
    const held = credentials?.kind.case === "oauth2" ? credentials.kind.value : undefined;
    expect(held?.raw?.["token_type"]).toBe("DPoP");
    // A nonce once for the token endpoint, and once for the resource.
    expect(lines.filter((line) => line === "POST /token")).toHaveLength(isWanted ? 2 : 1);
    expect(lines.filter((line) => line === "GET /me")).toHaveLength(isWanted ? 3 : 2);
  });
});
