import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { type Issuer, startUnmanagedIssuer } from "../../support/identities/issuer.ts";
import {
  client,
  type ExchangeServer,
  InvalidGrant,
  InvalidScope,
  InvalidTarget,
  listening,
  startExchangeServer,
} from "../../support/peers/exchange-server.ts";
import { secretKey, startUnmanaged, type TestSidecar } from "../../support/sidecar/harness.ts";
import { type Called, type Calling, call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";

/** The identity provider, the authorization server of the API, and the API. */
let issuer: Issuer;
let assertions: ExchangeServer;
let server: ExchangeServer;
let api: { readonly url: string; readonly server: Server };
let sidecar: TestSidecar;
let folder = "";
/** The header lines of each request that the API got. */
const received: string[][] = [];

const api1 = "https://api.example";
const idToken = "urn:ietf:params:oauth:token-type:id_token";
const idJag = "urn:ietf:params:oauth:token-type:id-jag";
const mapped = (url: string) => url.replace("http:", "https:");

beforeAll(async () => {
  issuer = await startUnmanagedIssuer();
  server = await startExchangeServer({
    jwks: issuer.jwks,
    judge({ token: { header, claims }, parameters, clientId }) {
      const { sub, aud, client_id: forClient, resource, scope } = claims;
      if (sub === "barred") throw new InvalidGrant("not this user");
      if (parameters["assertion"] !== undefined && header["typ"] === "oauth-id-jag+jwt") {
        if (aud !== server.url || forClient !== clientId) throw new InvalidGrant("for another server or client");
        if (resource !== api1 || scope !== "files.read") throw new InvalidScope("wrong", String(scope));
        if (Object.keys(parameters).sort().join() !== "assertion,grant_type")
          throw new InvalidGrant("more than needed");
        return String(sub);
      }
      if (parameters["scope"] !== "files.read") throw new InvalidScope("wrong", String(parameters["scope"]));
      if (aud !== "the-app") throw new InvalidGrant("for another client");
      if (parameters["assertion"] !== undefined) return String(sub);
      const { subject_token_type: type, requested_token_type: wanted, audience, resource: at } = parameters;
      if (type !== idToken || wanted !== "urn:ietf:params:oauth:token-type:access_token") {
        throw new InvalidGrant("wrong types");
      }
      if (audience !== "files-of-acme" || at !== api1) throw new InvalidTarget("wrong");
      return String(sub);
    },
  });
  assertions = await startExchangeServer({
    jwks: issuer.jwks,
    judge({ token: { claims }, parameters }) {
      const { subject_token_type: type, requested_token_type: wanted, audience, resource, scope } = parameters;
      if (type !== idToken || wanted !== idJag || claims["aud"] !== "the-app") throw new InvalidGrant("wrong types");
      if (audience !== server.url || resource !== api1 || scope !== "files.read") throw new InvalidTarget("wrong");
      return String(claims["sub"]);
    },
    issue({ sub, parameters }, clientId) {
      const { audience, resource, scope } = parameters;
      const claims = { sub, aud: audience, client_id: clientId, resource, scope, jti: `${Math.random()}` };
      return {
        issued_token_type: idJag,
        access_token: issuer.token(claims, { typ: "oauth-id-jag+jwt" }),
        token_type: "N_A",
        expires_in: 300,
      };
    },
  });
  api = await listening(({ rawHeaders, headers, method }, response) => {
    received.push(rawHeaders);
    const granted = server.granted.get((headers.authorization ?? "").replace(/^Bearer /, ""));
    response.statusCode = granted === undefined ? 401 : 200;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ sub: granted?.sub ?? null, method }));
  });
  folder = await mkdtemp(join(tmpdir(), "latchkey-on-behalf-"));
  sidecar = await startUnmanaged({
    folder,
    env: {
      APP_SECRET: client.secret,
      LATCHKEY_ALLOW_PRIVATE: [issuer.url, server.url, assertions.url, api.url].join(),
      LATCHKEY_CONFIG: "/latchkey.yaml",
    },
    files: { "/latchkey.yaml": JSON.stringify(configuration()) },
  });
  for (const key of ["exchange", "bearer", "assertion", "tools"]) await connect(key, { type: "ON_BEHALF" });
  await connect("plain", { type: "API_KEY", apiKey: "the-key-of-all" });
});

afterAll(async () => {
  await sidecar?.stop();
  for (const one of [issuer, server, assertions]) one?.stop();
  api?.server.closeAllConnections();
  api?.server.close();
  await rm(folder, { recursive: true, force: true });
});

beforeEach(() => {
  for (const one of [server, assertions]) one.requests.length = 0;
  server.lifetimeS = 600;
  received.length = 0;
});

function configuration() {
  const authorizationServer = {
    token_url: `${mapped(server.url)}/token`,
    issuer: server.url,
    default_scopes: ["files.read"],
  };
  const identityProvider = { issuer: issuer.url, jwks_url: `${mapped(issuer.url)}/openid/v1/jwks` };
  const rules = {
    authorization_server: authorizationServer,
    identity_provider: identityProvider,
    subject_audience: "the-app",
  };
  const provider = (name: string, more: object) => ({
    name,
    on_behalf: { ...rules, ...more },
    proxy: { base_url: mapped(api.url) },
  });
  const integration = (key: string, more: object = {}) => ({
    environment: "dev",
    key,
    provider: key,
    oauth: { client_id: client.id, client_secret: { env: "APP_SECRET" } },
    ...more,
  });
  return {
    environments: [{ name: "dev" }],
    providers: [
      {
        ...provider("exchange", {
          grant: "token_exchange",
          audience: "files-of-${integration.tenant}",
          resource: api1,
          requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
        }),
        integration_settings: [{ name: "tenant", required: true }],
      },
      provider("bearer", { grant: "jwt_bearer" }),
      {
        ...provider("assertion", {
          grant: "id_jag",
          resource: api1,
          identity_provider: { ...identityProvider, token_url: `${mapped(assertions.url)}/token` },
          identity_client_id_setting: "idpClientId",
          identity_client_secret_setting: "idpClientSecret",
        }),
        integration_settings: [{ name: "idpClientId" }, { name: "idpClientSecret", secret: true }],
      },
      { ...provider("tools", { grant: "jwt_bearer" }), mcp: { url: `${mapped(api.url)}/mcp` } },
      { name: "plain", api_key: { header: "x-api-key" }, proxy: { base_url: mapped(api.url) } },
    ],
    integrations: [
      integration("exchange", { settings: { tenant: "acme" } }),
      integration("bearer"),
      integration("tools"),
      integration("assertion", {
        settings: { idpClientId: client.id, idpClientSecret: { env: "APP_SECRET" } },
      }),
      { environment: "dev", key: "plain", provider: "plain" },
    ],
    policies: [{ environment: "dev", id: "deletions", effect: "hold", condition: 'request.method == "DELETE"' }],
    aliases: [{ name: "files", environment: "dev", integration: "exchange", connection: "all", listen: "127.0.0.1:0" }],
  };
}

async function connect(key: string, credentials: object): Promise<void> {
  const { status, body } = await sidecar.rest("POST", "/connections", {
    body: { provider_config_key: key, connection_id: "all", credentials },
  });
  if (status !== 201) throw new Error(`the connection was not made: ${JSON.stringify(body)}`);
}

/** A token that the identity provider has issued to a user. Each is another text. */
const tokenOf = (sub: string, claims: object = {}, header: object = {}) =>
  issuer.token({ sub, aud: "the-app", jti: `${Math.random()}`, ...claims }, { typ: "JWT", ...header });

interface Ask extends Calling {
  readonly integration?: string;
  readonly key?: string;
}

const ask = (subject: string | undefined, { integration = "exchange", key = secretKey, headers, ...more }: Ask = {}) =>
  call(`${sidecar.data}/proxy/files?x=1`, {
    headers: {
      authorization: `Bearer ${key}`,
      "provider-config-key": integration,
      "connection-id": "all",
      ...(subject !== undefined && { "latchkey-subject-token": subject }),
      ...headers,
    },
    ...more,
  });

const userOf = ({ status, body }: Called) => `${status} ${JSON.parse(body).sub ?? body}`;

const sessionToken = async () => {
  const limits = { integrations: ["exchange"] };
  const { body } = await sidecar.rest("POST", "/access-sessions", { body: { limits } });
  return body.token as string;
};

describe("a connection that acts on behalf of users", () => {
  it("exchanges the token of the user once for all sessions, and forwards neither token nor header", async () => {
    const [first, second] = [tokenOf("ada"), tokenOf("ada")];
    expect(userOf(await ask(first, { key: await sessionToken() }))).toBe("200 ada");
    expect(userOf(await ask(second, { key: await sessionToken() }))).toBe("200 ada");
    expect(userOf(await ask(second, { method: "POST", body: "content" }))).toBe("200 ada");
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.["subject_token"]).toBe(first);
    const sent = received.flat().join("\n");
    for (const text of [first, second, "ubject"]) expect(sent).not.toContain(text);
  });

  it.each(["bearer", "assertion"])("gets an access token by the grant of `%s`", async (integration) => {
    expect(userOf(await ask(tokenOf("ada"), { integration }))).toBe("200 ada");
    expect(userOf(await ask(tokenOf("bob"), { integration }))).toBe("200 bob");
    expect(userOf(await ask(tokenOf("ada"), { integration }))).toBe("200 ada");
    expect(server.requests).toHaveLength(2);
    expect(assertions.requests).toHaveLength(integration === "assertion" ? 2 : 0);
  });

  it("gives each of 20 users their own token in 1,000 calls, with one exchange for each", async () => {
    const users = Array.from({ length: 20 }, (_, i) => `user-${i}`);
    const tokens = users.map((user) => [tokenOf(user), tokenOf(user), tokenOf(user)] as const);
    const answers = new Set<string>();
    const callAs = async (i: number): Promise<void> => {
      const at = i % users.length;
      const answer = await ask(tokens[at]?.[i % 3]);
      // A busy machine sheds load.
      if (faultOf(answer) === "overloaded") return callAs(i);
      answers.add(`${users[at]}: ${userOf(answer)}`);
    };
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 100 }, (_, i) => callAs(100 * round + i)));
    }
    expect([...answers].sort()).toEqual(users.map((user) => `${user}: 200 ${user}`).sort());
    expect(server.requests).toHaveLength(users.length);
  });

  it("does not give a token of fewer rights what one of more rights got", async () => {
    for (const scope of ["write", "read"]) await ask(tokenOf("eve", { scope }));
    await ask(tokenOf("eve", { scope: "read", act: { sub: "agent" } }));
    expect(server.requests).toHaveLength(3);
    await ask(tokenOf("eve", { scope: "read", sid: "another login", auth_time: 1 }));
    expect(server.requests).toHaveLength(3);
  });

  it("exchanges once more after a 401 of the API, and repeats only safe requests", async () => {
    const token = tokenOf("carl");
    expect(userOf(await ask(token))).toBe("200 carl");
    server.granted.clear();
    expect(userOf(await ask(token))).toBe("200 carl");
    expect(server.requests).toHaveLength(2);
    const other = tokenOf("dora");
    await ask(other);
    server.granted.clear();
    expect((await ask(other, { method: "POST", body: "x" })).status).toBe(401);
    await expect.poll(() => server.requests.length).toBe(4);
    expect(userOf(await ask(other, { method: "POST", body: "x" }))).toBe("200 dora");
    // One that was exchanged a moment ago and is refused again is not exchanged again.
    server.granted.clear();
    for (let i = 0; i < 3; i += 1) expect((await ask(other)).status).toBe(401);
    expect(server.requests).toHaveLength(4);
  });

  it("obtains another token once the former one has ended", async () => {
    server.lifetimeS = 1;
    const token = tokenOf("fay");
    await ask(token);
    await expect.poll(async () => (await ask(token)) && server.requests.length).toBe(2);
  });

  it("asks for the token of a user, and refuses it where a connection acts for no other", async () => {
    const [missing, empty, plain, both] = await Promise.all([
      ask(undefined),
      ask(""),
      ask(tokenOf("ada"), { integration: "plain" }),
      ask(tokenOf("ada"), { headers: { "latchkey-token": "user" } }),
    ]);
    for (const one of [missing, empty]) expect([one.status, faultOf(one)]).toEqual([400, "subject_token_required"]);
    for (const one of [plain, both]) expect([one.status, faultOf(one)]).toEqual([400, "invalid_headers"]);
    expect((await ask(undefined, { integration: "plain" })).status).toBe(401);
    expect(received).toHaveLength(1);
  });

  const now = Math.floor(Date.now() / 1_000);
  it.each([
    ["of another audience", () => tokenOf("ada", { aud: "another-app" })],
    ["of another issuer", () => tokenOf("ada", { iss: "https://other.example" })],
    ["that has expired", () => tokenOf("ada", { exp: now - 1 })],
    ["that is not valid yet", () => tokenOf("ada", { nbf: now + 600 })],
    ["without a user", () => tokenOf("")],
    ["without an end", () => tokenOf("ada", { exp: undefined })],
    ["that is a logout token", () => tokenOf("ada", { events: {} })],
    ["whose type is that of an identity assertion", () => tokenOf("ada", {}, { typ: "oauth-id-jag+jwt" })],
    ["of an unknown key", () => tokenOf("ada", {}, { kid: "key-9" })],
    ["without a signature", () => `${tokenOf("ada", {}, { alg: "none" }).split(".").slice(0, 2).join(".")}.`],
    ["with a wrong signature", () => [...tokenOf("ada").split(".").slice(0, 2), "AAAA"].join(".")],
    [
      "with the user of another token",
      () => [tokenOf("ada"), tokenOf("bob"), tokenOf("ada")].map((one, i) => one.split(".")[i]).join("."),
    ],
    ["that is no JWT", () => "opaque-token-0123456789"],
  ])("refuses a token %s, before any exchange", async (_, made) => {
    await ask(tokenOf("ada"));
    server.requests.length = 0;
    received.length = 0;
    const refused = await ask(made());
    expect([refused.status, faultOf(refused)]).toEqual([401, "subject_token_refused"]);
    expect([server.requests, received]).toEqual([[], []]);
  });

  it("says why a user gets no access token, and does not ask again at once", async () => {
    const token = tokenOf("barred");
    for (let i = 0; i < 3; i += 1) {
      const refused = await ask(token);
      expect([refused.status, faultOf(refused)]).toEqual([403, "on_behalf_refused"]);
      expect(refused.body).toContain("invalid_grant");
      expect(refused.body).not.toContain(token);
    }
    expect(server.requests).toHaveLength(1);
    expect(received).toEqual([]);
  });

  it("takes the token of the user on an alias, too", async () => {
    const headers = { authorization: `Bearer ${secretKey}`, "latchkey-subject-token": tokenOf("ivy") };
    expect(userOf(await call(`${sidecar.sidecar.aliases["files"]}/files`, { headers }))).toBe("200 ivy");
    const bare = await call(`${sidecar.sidecar.aliases["files"]}/files`, {
      headers: { authorization: headers.authorization },
    });
    expect(faultOf(bare)).toBe("subject_token_required");
  });

  it("takes the token of the user with requests of SendRequest, too", async () => {
    const send = (headers: { name: string; value: Uint8Array }[]) =>
      sidecar.client(TrafficService, secretKey).sendRequest({
        connection: { integration: "exchange", id: "all" },
        path: "/files",
        headers,
      });
    const sent = await send([{ name: "Latchkey-Subject-Token", value: Buffer.from(tokenOf("gil")) }]);
    expect(JSON.parse(Buffer.from(sent.body).toString())).toMatchObject({ sub: "gil" });
    expect((await send([])).problem?.code).toBe("subject_token_required");
  });

  const message = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });
  const ofUser = (sub: string) => ({ "latchkey-subject-token": tokenOf(sub), accept: "application/json" });

  it("acts for each user on a described MCP server, whose other paths stay closed", async () => {
    const body = message("tools/call", { name: "search", arguments: {} });
    const send = (headers: Record<string, string>) => sidecar.rest("POST", "/mcp/tools", { body, headers });
    const users = ["lea", "mia", "lea", "mia"];
    const answers = await Promise.all(users.map((user) => send(ofUser(user))));
    expect(answers.map((one) => [one.status, one.body.sub])).toEqual(users.map((user) => [200, user]));
    expect(server.requests).toHaveLength(2);
    expect((await send({ accept: "application/json" })).body.error.code).toBe("subject_token_required");
    expect(faultOf(await ask(tokenOf("lea"), { integration: "tools", method: "POST" }))).toBe("invalid_path");
    // Nothing that a discovery would do happens to a description.
    expect((await sidecar.rest("POST", "/integrations/tools/discover")).body.error.code).toBe("invalid_body");
  });

  it("takes the token of the user with a call of our own MCP endpoint, for this call alone", async () => {
    const params = {
      name: "provider_request",
      arguments: { integration: "exchange", connection: "all", path: "/files" },
    };
    const send = async (headers: Record<string, string>) => {
      const { body } = await sidecar.rest("POST", "/mcp", { body: message("tools/call", params), headers });
      return JSON.stringify(body);
    };
    const [nia, oli, withoutUser] = await Promise.all([send(ofUser("nia")), send(ofUser("oli")), send({})]);
    expect([nia.includes("nia"), nia.includes("oli")]).toEqual([true, false]);
    expect([oli.includes("oli"), oli.includes("nia")]).toEqual([true, false]);
    expect(withoutUser).toContain("subject_token_required");
    expect(server.requests).toHaveLength(2);
  });

  it("asks for another approval when the same request acts for another user", async () => {
    const held = { method: "DELETE", headers: { prefer: "respond-async" } };
    const answers = [await ask(tokenOf("jan"), held), await ask(tokenOf("jan"), held), await ask(tokenOf("kim"), held)];
    const [first, again, other] = answers.map((one) => [one.status, fieldOf(one, "location")]);
    expect(first).toEqual([202, expect.any(String)]);
    expect(again).toEqual(first);
    expect(other).toEqual([202, expect.any(String)]);
    expect(other).not.toEqual(first);
    expect(received).toEqual([]);
  });

  it("refuses the token of a user on an edge, which has no secret of the client", async () => {
    const keys = sidecar.client(EnvironmentService);
    const { secret } = await keys.createKey({ environment: "dev", id: "edges", scopes: [Scope.EDGE] });
    const edge = await startTestEdge({
      brokers: [sidecar.control],
      env: {
        LATCHKEY_BROKERS_KEY: secret,
        LATCHKEY_BROKERS_DATA: sidecar.data,
        LATCHKEY_ALLOW_PRIVATE: sidecar.config.allowPrivate.join(),
      },
    });
    const headers = {
      authorization: `Bearer ${secretKey}`,
      "provider-config-key": "exchange",
      "connection-id": "all",
    };
    const withUser = { ...headers, "latchkey-subject-token": tokenOf("ada") };
    const refused = await call(`${edge.data}/proxy/files`, { headers: withUser });
    expect([refused.status, faultOf(refused)]).toEqual([501, "not_implemented"]);
    expect(faultOf(await call(`${edge.data}/proxy/files`, { headers }))).toBe("subject_token_required");
    expect(received).toEqual([]);
  });

  it("leaves nothing of the tokens in logs and in the store", async () => {
    const token = tokenOf("hal");
    expect(userOf(await ask(token, { integration: "assertion" }))).toBe("200 hal");
    const secrets = [
      ...token.split(".").slice(1),
      ...[...server.granted].filter(([, { sub }]) => sub === "hal").map(([accessToken]) => accessToken),
      ...server.requests.map((one) => String(one["assertion"])),
    ];
    expect(secrets).toHaveLength(4);
    const files = await readdir(folder, { recursive: true, withFileTypes: true });
    const stored = await Promise.all(
      files.filter((one) => one.isFile()).map((one) => readFile(join(one.parentPath, one.name), "latin1")),
    );
    expect(stored.join("").length).toBeGreaterThan(1_000);
    const shown = (await sidecar.rest("GET", "/connections/all?provider_config_key=assertion")).body;
    expect(shown.credentials).toEqual({ type: "ON_BEHALF" });
    for (const text of [sidecar.logged.join(""), stored.join(""), JSON.stringify(shown)]) {
      for (const secret of secrets) expect(text).not.toContain(secret);
    }
  });
});
