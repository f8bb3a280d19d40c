import { expect, it } from "vitest";
import { startIssuer } from "../../support/identities/issuer.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { callTool, errorIn, follow, integration, modernCall, served, urlElicitation } from "./served.ts";

const resource = "https://tools.example.com/mcp";

/** A sidecar whose endpoint is a protected resource of an issuer. */
async function protectedBy(rules: readonly object[]) {
  const issuer = await startIssuer();
  const all = await served({
    settings: {
      identities: {
        issuers: [{ name: "company", issuer: issuer.url, audience: resource, users: true }],
        rules,
      },
    },
  });
  const tokenOf = (sub: string, more: object = {}) => issuer.token({ iss: issuer.url, aud: resource, sub, ...more });
  return { all, issuer, tokenOf };
}

const everyone = {
  user: "*",
  issuer: "company",
  environment: "dev",
  scopes: ["proxy", "syncs", "connections:read", "connections:write"],
};

const connectionsOf = async (all: Connecting, key: string) =>
  (await callTool(all, "list_connections", {}, { key })).result.structuredContent.connections;

it("says where tokens are from, and takes those for it alone", async () => {
  const { all, issuer, tokenOf } = await protectedBy([everyone]);
  const bare = await fetch(`${all.sidecar.data}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect(bare.status).toBe(401);
  const metadata = "https://tools.example.com/.well-known/oauth-protected-resource/mcp";
  expect(bare.headers.get("www-authenticate")).toBe(`Bearer resource_metadata="${metadata}"`);
  const found = await fetch(`${all.sidecar.data}${new URL(metadata).pathname}`);
  expect([found.status, await found.json()]).toEqual([
    200,
    { resource, authorization_servers: [issuer.url], bearer_methods_supported: ["header"], resource_name: "Latchkey" },
  ]);
  expect((await fetch(`${all.sidecar.data}/.well-known/oauth-protected-resource/other`)).status).toBe(404);

  expect((await modernCall(all, "tools/list", {}, { key: tokenOf("ada") })).status).toBe(200);
  for (const wrong of [
    { aud: "https://tools.example.com/other" },
    { exp: 1 },
    { iss: "https://evil.example.com" },
    { sub: "" },
  ]) {
    const refused = await modernCall(all, "tools/list", {}, { key: tokenOf("ada", wrong) });
    expect([refused.status, wrong]).toEqual([401, wrong]);
    expect(refused.headers.get("www-authenticate")).toContain('error="invalid_token"');
  }
  // The token is for this endpoint: no other route takes it.
  for (const path of ["/connections", "/access-sessions/current", "/proxy/drive/v3/files", "/mcp/anything"]) {
    expect([path, (await all.sidecar.rest("GET", path, { key: tokenOf("ada") })).status]).toEqual([path, 401]);
  }
});

it("gives each user their own connections alone", async () => {
  const { all, tokenOf } = await protectedBy([everyone]);
  const [ada, bob] = [tokenOf("ada"), tokenOf("bob")];
  const asked = await callTool(all, "sandbox-files_count", { text: "Q" }, { key: ada, capabilities: urlElicitation });
  await follow(all, asked.result.inputRequests.connect.params.url);
  const [own] = await connectionsOf(all, ada);
  expect(own).toMatchObject({ integration, state: "active" });
  expect((await callTool(all, "sandbox-files_count", { text: "Q" }, { key: ada })).result.isError).toBeUndefined();
  // Tokens are renewed: the user stays the same.
  expect(await connectionsOf(all, tokenOf("ada", { jti: "2" }))).toEqual([own]);

  expect(await connectionsOf(all, bob)).toEqual([]);
  const given = { integration, connection: own.connection, path: "/drive/v3/files" };
  const foreign = await callTool(all, "provider_request", given, { key: bob });
  expect(errorIn(foreign.result)).toMatchObject({ code: "unknown_connection" });
  expect(foreign.result.content[0].text).not.toContain("session_token");
  // Bob's call without a name needs an account of Bob's.
  const his = await callTool(all, "sandbox-files_count", { text: "Q" }, { key: bob, capabilities: urlElicitation });
  await follow(all, his.result.inputRequests.connect.params.url);
  const [second] = await connectionsOf(all, bob);
  expect(second.connection).not.toBe(own.connection);
  expect(await connectionsOf(all, ada)).toEqual([own]);
  const audit = all.sidecar.logged.filter((line) => line.includes("a tool was called")).map((line) => JSON.parse(line));
  expect(audit.at(-1)).toMatchObject({ caller: "user ada@company" });
  // No token is in a log, and none was sent to the provider.
  const seen = JSON.stringify(all.sandbox.seen());
  for (const token of [ada, bob]) {
    expect(all.sidecar.logged.some((line) => line.includes(token))).toBe(false);
    expect(seen).not.toContain(token);
  }
});

it("holds a user to the limits of the rule", async () => {
  const { all, tokenOf } = await protectedBy([
    { ...everyone, user: "ada", scopes: ["proxy"], limits: { connections: [{ integration: "sandbox-api-key" }] } },
  ]);
  const listed = await modernCall(all, "tools/list", {}, { key: tokenOf("ada") });
  expect(listed.body.result.tools.map(({ name }: { name: string }) => name)).toEqual(["provider_request"]);
  const other = await callTool(all, "provider_request", { integration, path: "/" }, { key: tokenOf("ada") });
  expect(errorIn(other.result)).toMatchObject({ code: "not_in_session" });
  expect((await modernCall(all, "tools/list", {}, { key: tokenOf("bob") })).status).toBe(401);
});
