import { beforeAll, expect, it } from "vitest";
import { faults } from "../../../src/base/fault.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { keyWith, sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection, startTestSidecar } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const at = (integration: string, id: string) => ({ "provider-config-key": integration, "connection-id": id });

beforeAll(async () => {
  await running().rest("POST", "/connections", { body: keyedConnection("ada") });
});

it("links each error to its explanation, whatever answers it", async () => {
  const { rest, data } = running();
  const wrong = { headers: { "content-type": "text/plain" }, body: "{}" };
  for (const [code, answered] of [
    ["not_found", rest("GET", "/nowhere")],
    ["unknown_key", rest("GET", "/connections", { key: "lk_nobody" })],
    ["invalid_query_params", rest("GET", "/connections?limit=0")],
    ["unsupported_media_type", rest("POST", "/connections", wrong)],
    ["unknown_provider_config", rest("GET", "/proxy/x", { headers: at("nothing-like-it", "ada") })],
    ["unknown_session", rest("GET", "/connect/session", { key: "lk_session" })],
  ] as const) {
    const { body, headers } = await answered;
    expect(body.error).toMatchObject({ code, doc_url: `${data}/docs/errors#${code}` });
    expect(headers.get("latchkey-error")).toBe(code);
  }
  const control = await fetch(`${running().control}/latchkey.v1.Nothing/Get`, { method: "POST" });
  expect(await control.json()).toMatchObject({ error: { doc_url: `${data}/docs/errors#not_found` } });
});

it("says in an error what to send", async () => {
  const { rest } = running();
  const form = await rest("POST", "/connections", {
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: "a=b",
  });
  expect(form.body.error.message).toBe(
    'the body must be JSON in UTF-8: send Content-Type: application/json; this request has "application/x-www-form-urlencoded"',
  );
  expect((await rest("GET", "/connections", { key: "lk_nobody" })).body.error.hint).toContain("latchkey keys create");
});

it.each([
  ["a route", "GET", "/conections", {}, 'did you mean "/connections"?'],
  ["a route with a parameter", "GET", "/integration/keyed", {}, 'did you mean "/integrations/keyed"?'],
  ["an integration", "GET", "/integrations/keyd", {}, 'did you mean "keyed"?'],
  ["an integration, on the proxy", "GET", "/proxy/x", at("keyd", "ada"), 'did you mean "keyed"?'],
  ["a connection, on the proxy", "GET", "/proxy/x", at("keyed", "adda"), 'did you mean "ada"?'],
  [
    "a connection's integration",
    "GET",
    "/proxy/x",
    at("calendar", "ada"),
    'the integration "keyed" has a connection "ada"',
  ],
  ["a provider", "GET", "/providers/example-apikey", {}, 'did you mean "example-api-key"?'],
  [
    "a parameter, beside a mistake",
    "GET",
    "/connections/ada?provider_config_ky=keyed",
    {},
    'did you mean "provider_config_key"?',
  ],
] as const)("suggests %s", async (_, method, path, headers, hint) => {
  const { body, status } = await running().rest(method, path, { headers });
  expect(status).toBeGreaterThanOrEqual(400);
  expect(body.error.hint).toBe(hint);
});

it("suggests nothing that the key may not list, and nothing of another environment", async () => {
  const { rest, client } = running();
  const proxyOnly = await keyWith(running(), Scope.PROXY);
  const blind = await rest("GET", "/proxy/x", { key: proxyOnly, headers: at("keyd", "ada") });
  expect(blind.body.error).toMatchObject({ code: "unknown_provider_config" });
  expect(blind.body.error.hint).toBeUndefined();

  const environments = client(EnvironmentService);
  await environments.createEnvironment({ name: "other" });
  const { secret: key } = await environments.createKey({ environment: "other", id: "of-other" });
  const elsewhere = await rest("GET", "/integrations/keyd", { key });
  expect(elsewhere.body.error).toMatchObject({ code: "unknown_provider_config" });
  expect(elsewhere.body.error.hint).toBeUndefined();
});

it("explains every code on a page without a script", async () => {
  const answer = await fetch(`${running().data}/docs/errors`);
  const text = await answer.text();
  expect(answer.headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'sha256-/);
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
  for (const code of Object.keys(faults)) expect(text).toContain(`<section id="${code}">`);
  expect(text).not.toContain("<script");
});

it("has the configured base in its links, and serves the page on the public listener", async () => {
  const { sidecar, rest } = await startTestSidecar({
    env: { LATCHKEY_DOCS_URL: "https://docs.example.com/keys/", LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0" },
  });
  const { body } = await rest("GET", "/nowhere");
  expect(body.error.doc_url).toBe("https://docs.example.com/keys/docs/errors#not_found");
  const open = sidecar.addresses.public ?? "";
  expect((await fetch(`${open}/docs/errors`)).status).toBe(200);
  // Nothing about the private listener.
  for (const path of ["/openapi.json", "/"]) expect((await fetch(`${open}${path}`)).status).toBe(404);
});

it("greets at the root", async () => {
  const { data, ops } = running();
  expect(await (await fetch(data)).json()).toEqual({
    name: "latchkey",
    version: expect.any(String),
    docs: "/docs/errors",
    health: "/health",
    openapi: "/openapi.json",
  });
  const page = await fetch(data, { headers: { accept: "text/html" } });
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const index = await fetch(ops, { headers: { accept: "application/json" } });
  expect(Object.keys(((await index.json()) as { paths: object }).paths)).toEqual([
    "/livez",
    "/readyz",
    "/startupz",
    "/metrics",
  ]);
  expect(await (await fetch(ops)).text()).toContain('<a href="/metrics">');
  expect(await (await fetch(`${ops}/healthz`)).text()).toBe("ok\n");
});
