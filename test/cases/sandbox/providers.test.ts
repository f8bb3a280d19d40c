import { expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { connecting } from "../../support/sidecar/connecting.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { proxyCall } from "./proxied.ts";
import { started } from "./started.ts";

const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
const consumer = { ...app, type: "OAUTH1" };

async function beside(options: Parameters<typeof started>[0] = {}) {
  const sandbox = await started(options);
  const sidecar = await startTestSidecar({
    env: { LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin), LATCHKEY_CONFIG: "/latchkey.yaml" },
    // JSON is YAML.
    files: { "/latchkey.yaml": JSON.stringify({ providers: describeProviders(sandbox.origin) }) },
  });
  return { sandbox, sidecar, ...proxyCall(sidecar) };
}

it("describes itself so that latchkey takes every description", async () => {
  const { sandbox, sidecar } = await beside();
  const { body } = await sidecar.rest("GET", "/providers");
  const names = body.data
    .map(({ name }: { name: string }) => name)
    .filter((name: string) => name.startsWith("sandbox-"));
  expect(names.sort()).toEqual(
    describeProviders(sandbox.origin)
      .map(({ name }) => name)
      .sort(),
  );
});

it("accepts latchkey's requests with each kind of credentials", async () => {
  const { sandbox, connect, call } = await beside();
  const oauth1 = sandbox.grantOAuth1({ user: "bob@example.com" });
  const { access_token } = sandbox.grant({ user: "grace@example.com" });
  await connect("sandbox-api-key", { type: "API_KEY", apiKey: "sandbox-api-key" });
  await connect("sandbox-basic", { type: "BASIC", username: "sandbox", password: "sandbox-password" });
  await connect("sandbox-unified", { type: "OAUTH2", access_token }, { credentials: app });
  await connect("sandbox-oauth1", { type: "OAUTH1", ...oauth1 }, { credentials: consumer });
  const by = async (integration: string) => {
    const response = await call(integration, "/api/me");
    const { email, by: how } = (await response.json()) as { email: string; by: string };
    return [response.status, email, how];
  };
  expect(await by("sandbox-api-key")).toEqual([200, "robot@sandbox.example", "api_key"]);
  expect(await by("sandbox-basic")).toEqual([200, "ada@example.com", "basic"]);
  expect(await by("sandbox-unified")).toEqual([200, "grace@example.com", "bearer"]);
  expect(await by("sandbox-oauth1")).toEqual([200, "bob@example.com", "oauth1"]);
});

it.each([
  ["api-key/sandbox-api-key", { apiKey: "a-wrong-key" }, { apiKey: "sandbox-api-key" }],
  [
    "basic/sandbox-basic",
    { username: "sandbox", password: "wrong" },
    { username: "sandbox", password: "sandbox-password" },
  ],
  ["basic/sandbox-basic", { username: "root" }, { username: "sandbox", password: "sandbox-password" }],
])("connects nothing to %s with credentials that it refuses", async (path, wrong, right) => {
  const all = await connecting();
  const token = await all.session();
  const post = async (body: object) => {
    const headers = { "content-type": "application/json" };
    const url = `${all.sidecar.data}/api-auth/${path}?connect_session_token=${token}`;
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    return [response.status, response.headers.get("latchkey-error")];
  };
  expect(await post(wrong)).toEqual([400, "connection_test_failed"]);
  expect(await all.connections()).toEqual([]);
  expect(await post(right)).toEqual([200, null]);
});

it("names the key and the password that are right on its page", async () => {
  const { sandbox } = await beside();
  const text = await (await fetch(`${sandbox.origin}/_sandbox`)).text();
  for (const right of ["sandbox-api-key", "sandbox-password", "is refused with 401"]) expect(text).toContain(right);
});

it("judges signatures of latchkey over a query and a form as they arrive", async () => {
  const { sandbox, connect, call } = await beside();
  await connect("sandbox-oauth1", { type: "OAUTH1", ...sandbox.grantOAuth1() }, { credentials: consumer });
  const form = new URLSearchParams({ status: "Ladies + Gentlemen! it's 100% (ok)* ☃" });
  const path = "/api/echo/a%2Fb?z=%20y&a=%41&a=1&e=";
  const response = await call("sandbox-oauth1", path, { method: "POST", body: form });
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ target: path, body: form.toString() });
  expect(sandbox.seen().tallies.signaturesRefused).toBe(0);
});

it("serves the calls of the product's description: files by pageSize, and the primary calendar", async () => {
  const { sandbox, connect, call } = await beside();
  const { access_token } = sandbox.grant();
  await connect("sandbox-unified", { type: "OAUTH2", access_token });
  const files = (await (await call("sandbox-unified", "/drive/v3/files?pageSize=10")).json()) as { files: unknown[] };
  expect(files.files).toHaveLength(10);
  const primary = await (await call("sandbox-unified", "/v3/users/me/calendarList/primary")).json();
  expect(primary).toMatchObject({ id: "ada@example.com" });
  const [seen] = sandbox.seen().last.files ?? [];
  expect(seen?.headers["authorization"]).toBe(`Bearer ${access_token}`);
  expect(JSON.stringify(sandbox.seen())).not.toMatch(/provider-config-key|connection-id|lk_test/i);
});

it("reports a revoked token through latchkey too", async () => {
  const { sandbox, connect, call } = await beside();
  await connect("sandbox-files", { type: "OAUTH2", access_token: sandbox.grant().access_token });
  expect((await call("sandbox-files", "/drive/v3/files")).status).toBe(200);
  sandbox.revoke({ user: "ada@example.com" });
  const response = await call("sandbox-files", "/drive/v3/files");
  expect(response.status).toBe(401);
  expect(response.headers.get("www-authenticate")).toContain("invalid_token");
  // The provider's answer, not latchkey's.
  expect(response.headers.has("latchkey-error")).toBe(false);
});

it("names the address that latchkey must allow, with and without TLS, and with a default port", () => {
  expect(allowPrivateFor("http://127.0.0.1:3010")).toBe("http://127.0.0.1:3010");
  expect(allowPrivateFor("https://127.0.0.1:3010")).toBe("127.0.0.1:3010");
  expect(allowPrivateFor("http://sandbox")).toBe("http://sandbox:80");
  expect(allowPrivateFor("https://[::1]")).toBe("[::1]:443");
});
