import { expect, it } from "vitest";
import { ProviderMistake, readProvider } from "../../../src/providers/read.ts";

const least = { name: "mine" };

function mistakesIn(more: object): string[] {
  try {
    readProvider({ ...least, ...("oauth2" in more || "app" in more || "jwt" in more ? {} : { api_key: {} }), ...more });
    return [];
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return error.mistakes.map(({ path, message }) => `${path.join(".")}: ${message}`);
  }
}
const pathsIn = (more: object) => mistakesIn(more).map((one) => one.split(":", 1)[0]);

const oauth2 = (rules: object, more: object = {}) => ({ oauth2: rules, ...more });
const probe = { request: { method: "GET", path: "/me" } };
const shop = { name: "shop", pattern: "[a-z]+" };
const host = { name: "host", suffixes: ["crm.example"] };

it("accepts a description with only the required fields", () => {
  expect(mistakesIn({})).toEqual([]);
});

it("reports every mistake at once, with its place", () => {
  const wrong = {
    proxy: { base_url: "http://a.example", hosts: [{ prefix: "x", origin: "https://a.example/" }] },
    connection_fields: [{ name: "a", pattern: "(" }, { name: "a" }],
    notification: { signature: { jwks_url: "http://a.example" }, lookups: [{ field: "tags.x", value: "x" }] },
    describe: [{ request: { method: "get", path: "x", body: "{" }, field: "id" }],
    verification: { request: { method: "GET", path: "//evil.example" } },
    channel: {
      resources: { events: { watch: { path: "/x" } } },
      // Without a number a lost message cannot be detected.
      sequential_numbers: true,
      stop: { method: "POST", path: "/x", body: "${id}" },
    },
  };
  expect(pathsIn(wrong)).toEqual([
    "proxy.base_url",
    "proxy.hosts.0.prefix",
    "proxy.hosts.0.origin",
    "connection_fields.0.pattern",
    "connection_fields.1.name",
    "notification.signature.jwks_url",
    "notification.lookups.0.value",
    "notification.lookups.0.field",
    "describe.0.request.method",
    "describe.0.request.path",
    "describe.0.request.body",
    "describe.0.field",
    "describe.0.value",
    "channel.resources.events.watch.method",
    "channel.stop.body",
    "channel.sequential_numbers",
    "verification.request.path",
  ]);
});

it.each([
  "authorization_url",
  "token_url",
  "refresh_url",
  "revocation_url",
  "device_authorization_url",
  "pushed_authorization_url",
  "metadata_url",
  "jwks_url",
])("wants the %s to be https, and no more than a URL", (name) => {
  const issuer = "https://a.example";
  for (const url of [
    "http://a.example/x",
    "a.example",
    "https://u:p@a.example/x",
    "https://a.example/x#y",
    "ftp://a/b",
  ]) {
    expect({ url, paths: pathsIn(oauth2({ issuer, [name]: url })) }).toEqual({ url, paths: [`oauth2.${name}`] });
  }
  expect(mistakesIn(oauth2({ issuer, [name]: "https://a.example/x?y=z" }))).toEqual([]);
});

it("lets a connection fill only described parts of a URL", () => {
  const token = (url: string, fields: readonly object[]) =>
    pathsIn(oauth2({ token_url: url }, { connection_fields: fields }));
  expect(token("https://${connectionConfig.shop}.a.example/x", [shop])).toEqual([]);
  expect(token("https://${connectionConfig.host}/x", [host])).toEqual([]);
  expect(token("https://${connectionConfig.host}:8443/x", [host])).toEqual([]);
  expect(token("https://a.example/${connectionConfig.shop}/x", [shop])).toEqual([]);
  for (const [url, fields] of [
    ["https://${connectionConfig.shop}.a.example/x", []],
    ["https://${connectionConfig.shop}.a.example/x", [{ name: "shop" }]],
    // A suffix does not restrict a path.
    ["https://a.example/${connectionConfig.host}/x", [host]],
    ["https://x${connectionConfig.shop}.a.example/x", [shop]],
    ["https://${connectionConfig.shop}x.a.example/x", [shop]],
    ["https://${connectionConfig.shop}${connectionConfig.shop}.a.example/x", [shop]],
    ["https://a.example/x${connectionConfig.shop}", [shop]],
    ["https://a.example/x?y=${connectionConfig.shop}", [shop]],
    ["https://a.example:${connectionConfig.shop}/x", [shop]],
    ["https://${connectionConfig.shop", [shop]],
    ["https://${shop}.a.example/x", [shop]],
    ["https://${connectionConfig.shop}@a.example/x", [shop]],
    ["${connectionConfig.shop}://a.example/x", [shop]],
    ["https://a.example/${credentials.id}/x", []],
  ] as const) {
    expect({ url, paths: token(url, fields) }).toEqual({ url, paths: ["oauth2.token_url"] });
  }
});

it("lets the URL of an exchange contain credentials only in its path", () => {
  const app = (url: string) => pathsIn({ app: { token_url: url } });
  expect(app("https://a.example/app/${credentials.installation_id}/tokens")).toEqual([]);
  expect(app("https://${credentials.installation_id}.a.example/")).toEqual(["app.token_url"]);
  expect(pathsIn({ jwt: { token_url: "https://a.example/${credentials.x}" } })).toEqual(["jwt.token_url"]);
});

it("requires suffixes that not everyone can register under, and defaults that match", () => {
  const field = (more: object) => pathsIn({ connection_fields: [{ name: "host", ...more }] });
  for (const suffix of [
    "com",
    "",
    ".crm.example",
    "crm.example.",
    "*.crm.example",
    "https://crm.example",
    "CRM.example",
    "1.1",
  ]) {
    expect({ suffix, paths: field({ suffixes: [suffix] }) }).toEqual({
      suffix,
      paths: ["connection_fields.0.suffixes.0"],
    });
  }
  expect(field({ suffixes: ["crm.example"] })).toEqual([]);
  expect(field({ pattern: "[a-z]+", default_value: "abc1" })).toEqual(["connection_fields.0.default_value"]);
  expect(field({ pattern: "[a-z]+|common", default_value: "common" })).toEqual([]);
  expect(field({ suffixes: ["crm.example"], default_value: "evilcrm.example" })).toEqual([
    "connection_fields.0.default_value",
  ]);
  expect(field({ suffixes: ["crm.example"], default_value: "login.crm.example" })).toEqual([]);
});

it("requires an issuer where it is compared, and a grant where another one refreshes", () => {
  expect(pathsIn(oauth2({ metadata_url: "https://a.example/x" }))).toEqual(["oauth2.issuer"]);
  expect(pathsIn(oauth2({ jwks_url: "https://a.example/x" }))).toEqual(["oauth2.issuer"]);
  expect(pathsIn(oauth2({ issuer_always: true }))).toEqual(["oauth2.issuer"]);
  expect(pathsIn(oauth2({ renewal: { access_token: true } }))).toEqual(["oauth2.renewal.grant_type"]);
  const facebook = { grant_type: "fb_exchange_token", parameter: "fb_exchange_token", access_token: true };
  expect(pathsIn(oauth2({ renewal: facebook }))).toEqual([]);
});

it("wants dotted paths without empty names", () => {
  const answer = { access_token: "a..b", expires_at: ".a", metadata: { team: "a." }, scope: "a.b\\.c" };
  expect(pathsIn(oauth2({ token_answer: answer }, { verification: { ...probe, accepted: "." } }))).toEqual([
    "oauth2.token_answer.access_token",
    "oauth2.token_answer.expires_at",
    "oauth2.token_answer.metadata.team",
    "verification.accepted",
  ]);
});

it("wants each scope described once", () => {
  const notes = (...scopes: string[]) => pathsIn(oauth2({ scope_notes: scopes.map((scope) => ({ scope })) }));
  expect(notes("a", "b")).toEqual([]);
  expect(notes("a", "a", "")).toEqual(["oauth2.scope_notes.1.scope", "oauth2.scope_notes.2.scope"]);
});

it.each([
  ["oauth2.refresh_tokens.lifetime", oauth2({ refresh_tokens: { lifetime: "0s" } })],
  ["oauth2.refresh_tokens.idle_lifetime", oauth2({ refresh_tokens: { idle_lifetime: "-1s" } })],
  ["oauth2.refresh_tokens.max_per_account", oauth2({ refresh_tokens: { max_per_account: -1 } })],
  ["oauth2.callback_signature.parameter", oauth2({ callback_signature: {} })],
  ["oauth2.callback_signature.hash", oauth2({ callback_signature: { parameter: "hmac", hash: "md5" } })],
  ["oauth2.token_answer.expires_at_unit", oauth2({ token_answer: { expires_at_unit: "minutes" } })],
  ["app.request.authorization", { app: { request: { authorization: "digest" } } }],
])("applies the schema to %s", (path, more) => {
  expect(pathsIn(more)).toEqual([path]);
});

it("lets added parameters name what exists, and shows no secret to the browser", () => {
  const settings = [{ name: "appId" }, { name: "key", secret: true }];
  const at = (rules: object) =>
    mistakesIn({ ...oauth2(rules), integration_settings: settings, connection_fields: [shop] });
  expect(at({ authorization_params: { app: "${integration.appId}", context: "${connectionConfig.shop}" } })).toEqual(
    [],
  );
  expect(at({ token_params: { key: "${integration.key}" }, refresh_params: { key: "${integration.key}" } })).toEqual(
    [],
  );
  expect(at({ authorization_params: { key: "${integration.key}" } })).toEqual([
    "oauth2.authorization_params.key: must not contain integration.key: the end user would see a secret",
  ]);
  expect(at({ token_params: { x: "${connectionConfig.other}", secret: "${integration.clientSecret}" } })).toHaveLength(
    2,
  );
});
