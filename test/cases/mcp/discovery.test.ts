import { describe, expect, it, onTestFinished } from "vitest";
import { type Connection, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import {
  IntegrationService,
  ClientRegistration_Method as Method,
} from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { startMcpPeer } from "../../support/peers/mcp-peer.ts";
import { github, movedTo, notion, otherIssuer, vendors, withoutPkce } from "../../support/peers/mcp-vendors.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import {
  call,
  connect,
  connectionsOf,
  create,
  type PeerAndSidecar,
  peerAndSidecar,
  publicUrl,
  toLoopback,
} from "./connected-peer.ts";

const integrationOf = async ({ sidecar }: PeerAndSidecar, key = "tools") => {
  const { integration } = await sidecar
    .client(IntegrationService)
    .getIntegration({ environment: "dev", key, includeSecrets: true });
  if (integration === undefined) throw new Error("there is no such integration");
  return integration;
};

const firstConnection = async ({ sidecar }: PeerAndSidecar): Promise<Connection> => {
  const { connections } = await sidecar.client(ConnectionService).listConnections({ environment: "dev" });
  const [first] = connections;
  if (first === undefined) throw new Error("there is no connection");
  return first;
};

describe("an MCP server", () => {
  it.each(Object.entries(vendors))("with the metadata of %s connects by its URL alone", async (_, vendor) => {
    const all = await peerAndSidecar(vendor);
    const created = await create(all);
    expect([created.status, created.body]).toEqual([200, expect.anything()]);
    const asked = await connect(all);
    const tokenRequest = new URLSearchParams(
      all.peer.requests.findLast(({ body }) => body.includes("grant_type"))?.body,
    );
    expect(asked.get("code_challenge_method")).toBe("S256");
    expect(asked.get("resource")).toMatch(/^https:/);
    expect(tokenRequest.get("resource")).toBe(asked.get("resource"));
    const listed = await call(all, { method: "tools/list" });
    expect(listed).toMatchObject({ status: 200, body: { result: { tools: [{ name: "echo" }] } } });
  });

  it("is asked for the scopes of its challenge, else of its metadata, and for a refresh token", async () => {
    for (const [vendor, scope] of [
      [vendors.keycloak, "mcp:tools"],
      [vendors.sentry, "org:read project:write team:write event:write"],
      [vendors.vercel, "openid offline_access"],
      [vendors.gitlab, null],
    ] as const) {
      const all = await peerAndSidecar(vendor);
      await create(all);
      expect((await connect(all)).get("scope")).toBe(scope);
    }
  });

  it("without authorization is connected without credentials", async () => {
    const all = await peerAndSidecar({ url: "https://open.example.com/mcp", challenge: "open", documents: {} });
    expect((await create(all)).status).toBe(200);
    const body = { connection_id: "all", provider_config_key: "tools", credentials: { type: "NONE" } };
    await all.sidecar.rest("POST", "/connections", { body });
    expect(await call(all, { method: "tools/list" })).toMatchObject({ status: 200 });
    expect(all.peer.requests.at(-1)?.headers.authorization).toBeUndefined();
  });

  it("of 2025-03-26 that publishes no metadata has default endpoints below its origin, with PKCE", async () => {
    const origin = "https://mcp.notion.com";
    // The peer answers at these endpoints, and publishes none of its documents.
    const endpoints = {
      issuer: origin,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
    };
    const bare = { url: notion.url, documents: { "https://mcp.notion.com/unpublished": endpoints } };
    const all = await peerAndSidecar(bare);
    expect(await create(all)).toMatchObject({ status: 200 });
    const query = await connect(all);
    expect(query.get("code_challenge_method")).toBe("S256");
    expect(await call(all, { method: "tools/list" })).toMatchObject({ status: 200 });

    // Metadata that appear later are of another kind of issuer, and count as such.
    all.peer.publish(notion);
    expect((await all.sidecar.rest("POST", "/integrations/tools/discover")).status).toBe(200);
    const { oauth } = await integrationOf(all);
    expect(oauth?.registration?.issuer).toContain("mcp.notion.com");
    // Those that are missing later are not replaced by the default endpoints.
    all.peer.publish({ ...bare, documents: { "https://mcp.notion.com/unpublished": endpoints } });
    expect(await all.sidecar.rest("POST", "/integrations/tools/discover")).toMatchObject({
      status: 424,
      body: { error: { code: "discovery_failed" } },
    });
  });

  it("is refused without PKCE, with metadata of another issuer or resource, and where there is none", async () => {
    const elsewhere = { ...notion, url: "https://mcp.notion.com/v2" };
    const foreign = {
      ...notion,
      documents: {
        ...notion.documents,
        "https://mcp.notion.com/.well-known/oauth-protected-resource/mcp": {
          resource: "https://evil.example.com",
          authorization_servers: ["https://mcp.notion.com"],
        },
      },
    };
    for (const [vendor, message] of [
      [withoutPkce, "PKCE"],
      [otherIssuer, "another issuer"],
      [foreign, "another resource"],
      [{ ...elsewhere, documents: {} }, "metadata"],
    ] as const) {
      const all = await peerAndSidecar(vendor);
      expect(await create(all)).toMatchObject({
        status: 424,
        body: { error: { code: "discovery_failed", message: expect.stringContaining(message) } },
      });
      expect((await all.sidecar.rest("GET", "/integrations")).body.data).toEqual([]);
    }
  });

  it("leads to no address that is not allowed: not by its challenge, its metadata or a redirect", async () => {
    const inside = "https://inside.example.com/.well-known/oauth-protected-resource";
    const all = await peerAndSidecar({ ...notion, challenge: `Bearer resource_metadata="${inside}"` });
    // The vendor's own hosts are allowed; `inside.example.com` resolves to a private address too.
    all.peer.publish({ ...notion, challenge: 'Bearer resource_metadata="https://secret.example.com/x"' });
    expect(await create(all)).toMatchObject({
      status: 424,
      body: { error: { message: expect.stringContaining("reached") } },
    });
    all.peer.publish({ ...notion, challenge: 'Bearer resource_metadata="http://mcp.notion.com/x"' });
    expect(await create(all)).toMatchObject({
      status: 424,
      body: { error: { message: expect.stringContaining("https") } },
    });
    expect(all.peer.requests.every(({ method }) => method === "POST")).toBe(true);
    const plain = { unique_key: "plain", mcp_url: "http://mcp.notion.com/mcp" };
    expect(await all.sidecar.rest("POST", "/integrations", { body: plain })).toMatchObject({ status: 424 });
  });
});

describe("the client of an MCP integration", () => {
  it("is a document that the public listener serves, where the server accepts one", async () => {
    const all = await peerAndSidecar(vendors.sentry);
    await create(all);
    const { oauth, secrets, provider } = await integrationOf(all);
    expect(oauth?.clientId).toBe(`${publicUrl}/oauth/clients/${provider}`);
    expect(oauth?.registration?.method).toBe(Method.DOCUMENT);
    expect(secrets?.clientSecret ?? "").toBe("");
    const asked = await connect(all);
    const document = await fetch(`${all.sidecar.data}/oauth/clients/${provider}`);
    expect(await document.json()).toMatchObject({
      client_id: oauth?.clientId,
      client_name: expect.stringContaining("tools"),
      redirect_uris: [asked.get("redirect_uri")],
      token_endpoint_auth_method: "none",
    });
    expect(asked.get("client_id")).toBe(oauth?.clientId);
    expect(all.peer.requestsTo("/oauth/register")).toEqual([]);
    expect((await fetch(`${all.sidecar.data}/oauth/clients/mcp-unknown-000000000000`)).status).toBe(404);
  });

  it("is registered dynamically where Latchkey has no public https URL, with a secret that nobody reads", async () => {
    const all = await peerAndSidecar(vendors.sentry, { publicUrl: "" });
    const created = await create(all);
    const { oauth, secrets } = await integrationOf(all);
    expect(oauth?.registration).toMatchObject({ method: Method.DYNAMIC });
    expect(secrets?.clientSecret).toMatch(/^secret-/);
    expect(JSON.stringify(created.body)).not.toContain("secret-");
    const [registration] = all.peer.requestsTo("/oauth/register");
    expect(JSON.parse(registration?.body ?? "")).toMatchObject({
      application_type: "native",
      grant_types: ["authorization_code", "refresh_token"],
      redirect_uris: [oauth?.registration?.redirectUri],
      token_endpoint_auth_method: "client_secret_basic",
    });
    await connect(all);
  });

  it("is asked for where the server registers none, and used as it was given", async () => {
    const all = await peerAndSidecar(github);
    const refused = await create(all);
    expect(refused).toMatchObject({ status: 424, body: { error: { code: "client_required" } } });
    expect(refused.body.error.message).toContain(`${publicUrl}/oauth/callback/`);
    const credentials = { type: "OAUTH2", client_id: "app", client_secret: "app-secret" };
    expect(await create(all, "tools", { credentials })).toMatchObject({ status: 200 });
    const asked = await connect(all);
    expect(refused.body.error.message).toContain(asked.get("redirect_uri"));
    expect(asked.get("client_id")).toBe("app");
    const [tokenRequest] = all.peer.requestsTo("/login/oauth/access_token");
    expect(tokenRequest?.headers.authorization).toBe(`Basic ${btoa("app:app-secret")}`);
  });

  it("is asked for where the registration is refused", async () => {
    const all = await peerAndSidecar(vendors.figma);
    all.peer.registration = () => ({ status: 403, body: { error: "invalid_redirect_uri", error_description: "<b>" } });
    const refused = await create(all);
    expect(refused).toMatchObject({ status: 424, body: { error: { code: "client_required" } } });
    expect(refused.body.error.message).toContain("invalid_redirect_uri");
    expect(refused.body.error.message).not.toContain("<b>");
  });
});

/** A server with a connected account that names another issuer from now on. */
async function movedServer() {
  const issuer = "https://new.example.com";
  const all = await peerAndSidecar(notion, { publicUrl: "", others: ["new.example.com"] });
  await create(all);
  await connect(all);
  const { oauth: former, secrets: given } = await integrationOf(all);
  const [{ connection_id: id = "" } = {}] = await connectionsOf(all);
  const shown = await all.sidecar.rest("GET", `/connections/${id}?provider_config_key=tools&refresh_token=true`);
  const { access_token: accessToken, refresh_token: refreshToken } = shown.body.credentials;
  all.peer.publish(movedTo(issuer));
  const basic = btoa(`${former?.clientId}:${given?.clientSecret}`);
  /** What the new issuer must never see. */
  const secrets = [accessToken, refreshToken, former?.clientId, given?.clientSecret, basic];
  return { all, issuer, id, former, secrets, from: all.peer.requests.length };
}

describe("an MCP server that moves to another authorization server", () => {
  it("gets a new client, and neither the former client nor a former token goes anywhere", async () => {
    const { all, issuer, id, former, secrets, from } = await movedServer();
    const discovered = await all.sidecar.rest("POST", "/integrations/tools/discover");
    expect(discovered).toMatchObject({ status: 200, body: { issuer_changed: true } });
    const { oauth: current } = await integrationOf(all);
    expect(current?.clientId).not.toBe(former?.clientId);
    expect(current?.registration?.issuer).toBe(`${issuer}:${all.peer.port}`);

    expect(await call(all, { method: "tools/list" })).toMatchObject({
      status: 424,
      body: { error: { code: "reauthorization_required" } },
    });
    const refreshed = await all.sidecar.rest("GET", `/connections/${id}?provider_config_key=tools&force_refresh=true`);
    expect(refreshed.status).toBe(424);
    expect(await firstConnection(all)).toMatchObject({ state: 4, stateReason: "issuer_changed" });

    await connect(all, { reconnect: id });
    expect(await call(all, { method: "tools/list" })).toMatchObject({ status: 200 });
    await all.sidecar.rest("DELETE", `/connections/${id}?provider_config_key=tools`);
    const seen = JSON.stringify(all.peer.requests.slice(from));
    for (const secret of secrets) {
      expect(secret).toMatch(/.{8}/);
      expect(seen).not.toContain(secret);
    }
  });

  it("is discovered when it refuses a token, and its new issuer sees nothing of the former one", async () => {
    const { all, issuer, id, secrets, from } = await movedServer();
    await call(all, { method: "tools/list" });
    await expect
      .poll(async () => (await integrationOf(all)).oauth?.registration?.issuer)
      .toBe(`${issuer}:${all.peer.port}`);
    await expect.poll(() => firstConnection(all)).toMatchObject({ state: 4, stateReason: "issuer_changed" });
    const { body } = await call(all, { method: "tools/list" });
    expect(body.error).toMatchObject({ code: "reauthorization_required" });
    const reads = () => all.peer.requests.filter(({ url }) => url.includes("oauth-protected-resource")).length;
    const before = reads();
    await call(all, { method: "tools/list" });
    expect(reads()).toBe(before);

    await connect(all, { reconnect: id });
    expect(await call(all, { method: "tools/list" })).toMatchObject({ status: 200 });
    const seen = JSON.stringify(all.peer.requests.slice(from).filter(({ url }) => url.startsWith(issuer)));
    for (const secret of secrets) {
      expect(secret).toMatch(/.{8}/);
      expect(seen).not.toContain(secret);
    }
    expect(seen).toContain("code_verifier");
  });

  it("gets nothing of a client that the operator entered, until the operator enters another", async () => {
    const issuer = "https://new.example.com";
    const all = await peerAndSidecar(notion, { others: ["new.example.com"] });
    const credentials = { type: "OAUTH2", client_id: "given-app", client_secret: "given-secret" };
    await create(all, "tools", { credentials });
    all.peer.publish(movedTo(issuer));
    await all.sidecar.rest("POST", "/integrations/tools/discover");
    const { warnings } = await integrationOf(all);
    expect(warnings.map(({ code }) => code)).toContain("issuer_changed");
    await expect(connect(all)).rejects.toThrow("no authorization began");
    expect(JSON.stringify(all.peer.requests)).not.toContain("given");
    const body = { credentials: { type: "OAUTH2", client_id: "second-app", client_secret: "second-secret" } };
    expect((await all.sidecar.rest("PATCH", "/integrations/tools", { body })).status).toBe(200);
    expect((await connect(all)).get("client_id")).toBe("second-app");
  });

  it("gets nothing of a revocation that was queued before, and the former one no secret of the new client", async () => {
    const issuer = "https://new.example.com";
    const all = await peerAndSidecar(notion, { publicUrl: "", others: ["new.example.com"] });
    const { peer, sidecar } = all;
    // Both issuers happen to give the client the same ID.
    const register = (secret: string) => () => ({ status: 201, body: { client_id: "app", client_secret: secret } });
    peer.registration = register("first-secret");
    peer.revocation = () => ({ status: 503, body: {} });
    await create(all);
    await connect(all);
    const [{ connection_id: id = "" } = {}] = await connectionsOf(all);
    const path = `/connections/${id}?provider_config_key=tools`;
    const tokens = (await sidecar.rest("GET", `${path}&refresh_token=true`)).body.credentials;
    await sidecar.rest("DELETE", path);
    const revoking = () => peer.requests.filter(({ body }) => body.includes("token_type_hint"));
    await expect.poll(() => revoking().length).toBeGreaterThan(0);

    peer.publish(movedTo(issuer));
    peer.registration = register("second-secret");
    const moved = await sidecar.rest("POST", "/integrations/tools/discover");
    expect(moved.body).toMatchObject({ issuer_changed: true });
    expect((await integrationOf(all)).secrets?.clientSecret).toBe("second-secret");
    const from = peer.requests.length;
    peer.revocation = () => ({ status: 200, body: {} });
    const done = async () => (await sidecar.rest("GET", "/revocations?state=done")).body.revocations?.length;
    await expect.poll(done, { timeout: 60_000 }).toBe(1);
    const later = peer.requests.slice(from);
    expect(new Set(later.map(({ url }) => new URL(url).hostname))).toEqual(new Set(["mcp.notion.com"]));
    for (const token of [tokens.access_token, tokens.refresh_token]) expect(JSON.stringify(later)).toContain(token);
    const basics = new Set(later.map(({ headers }) => headers.authorization));
    expect(basics).toEqual(new Set([`Basic ${btoa("app:first-secret")}`]));
  });

  it("gets no code of an authorization that began at the former one", async () => {
    const all = await peerAndSidecar(notion, { publicUrl: "", others: ["new.example.com"] });
    await create(all);
    const visit = all.peer.visit;
    const moving = {
      ...all,
      peer: {
        ...all.peer,
        visit: async (url: string) => {
          const back = await visit(url);
          all.peer.publish(movedTo("https://new.example.com"));
          await all.sidecar.rest("POST", "/integrations/tools/discover");
          return back;
        },
      },
    };
    await expect(connect(moving)).rejects.toThrow("another login");
    expect(all.peer.requestsTo("/token")).toEqual([]);
  });
});

describe("an MCP integration of the configuration file", () => {
  it("is discovered after the start, and keeps its client over a restart", async () => {
    const config = (url: string) =>
      JSON.stringify({
        environments: [{ name: "dev" }],
        integrations: [{ environment: "dev", key: "tools", mcp: url }],
      });
    const peer = await startMcpPeer(vendors.figma);
    onTestFinished(() => peer.close());
    const folder = await temporaryFolder();
    const options = {
      folder,
      resolve: toLoopback,
      env: {
        LATCHKEY_ALLOW_PRIVATE: peer.allowed(),
        LATCHKEY_CONFIG: "/latchkey.yaml",
        LATCHKEY_PUBLIC_URL: publicUrl,
      },
      files: { "/latchkey.yaml": config(peer.url) },
    };
    const first = { peer, sidecar: await startTestSidecar(options) };
    await expect.poll(async () => (await integrationOf(first)).oauth?.clientId).toMatch(/^client-/);
    await connect(first);
    const before = await integrationOf(first);
    expect([before.declared, before.mcpUrl, before.warnings]).toEqual([true, peer.url, []]);
    await first.sidecar.stop();
    const second = { peer, sidecar: await startTestSidecar(options) };
    const after = await integrationOf(second);
    expect([after.oauth?.clientId, after.secrets?.clientSecret]).toEqual([
      before.oauth?.clientId,
      before.secrets?.clientSecret,
    ]);
    expect(await call(second, { method: "tools/list" })).toMatchObject({ status: 200 });
    expect(peer.requestsTo("/v1/oauth/mcp/register").length).toBe(1);
  });
});
