import { timestampDate } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { credentialTypes } from "../../../../src/core/dialect/credentials.ts";
import { ImportMistake, readImportJson } from "../../../../src/core/dialect/import-line.ts";

const secret = "s3cr3t-canary";
const oauth2 = { type: "OAUTH2", access_token: "at", refresh_token: "rt" };

const read = (credentials: unknown, rest: object = {}) =>
  readImportJson({ provider_config_key: "calendar", credentials, ...rest });
const kindOf = (credentials: unknown) => read(credentials).connection.credentials?.kind;

function mistakesIn(value: unknown): Record<string, string> {
  try {
    readImportJson(value);
  } catch (error) {
    if (error instanceof ImportMistake) {
      return Object.fromEntries(error.mistakes.map(({ path, message }) => [path.join("."), message]));
    }
    throw error;
  }
  return {};
}
const mistakesOf = (credentials: unknown, rest: object = {}) =>
  mistakesIn({ provider_config_key: "calendar", credentials, ...rest });

it("reads everything that a connection may bring", () => {
  const { connection, ignored } = readImportJson({
    provider_config_key: "calendar",
    connection_id: "ada",
    environment: "prod",
    credentials: { ...oauth2, expires_at: "2030-01-01T00:00:00.000Z", raw: { scope: "a b" } },
    metadata: { email: "ada@example.com", calendarWatchResourceUris: ["https://a"] },
    connection_config: { subdomain: "ada" },
    tags: { Team: "red" },
    end_user: {
      id: "1",
      email: "ada@example.com",
      display_name: "Ada",
      organization: { id: "o", display_name: "Org" },
    },
    webhook_url_override: "https://app/hooks",
  });
  expect(ignored).toEqual([]);
  expect(connection).toMatchObject({
    integration: "calendar",
    id: "ada",
    environment: "prod",
    metadata: { email: "ada@example.com", calendarWatchResourceUris: ["https://a"] },
    connectionConfig: { subdomain: "ada" },
    tags: { tags: { Team: "red" } },
    endUser: {
      id: "1",
      email: "ada@example.com",
      displayName: "Ada",
      organization: { id: "o", displayName: "Org" },
    },
    webhookUrlOverride: "https://app/hooks",
    credentials: { kind: { case: "oauth2", value: { accessToken: "at", refreshToken: "rt", raw: { scope: "a b" } } } },
  });
});

it("omits missing fields, so that a re-import keeps them", () => {
  const { connection } = read(oauth2);
  expect(connection.metadata).toBeUndefined();
  expect(connection.connectionConfig).toBeUndefined();
  expect(connection.tags).toBeUndefined();
  expect(connection.endUser).toBeUndefined();
  expect(connection.webhookUrlOverride).toBeUndefined();
  expect(connection.id).toBe("");
});

it("takes null for absent", () => {
  const nothing = { connection_id: null, metadata: null, connection_config: null, tags: null, end_user: null };
  const nulls = { ...oauth2, expires_at: null, raw: null, config_override: null };
  const { connection, ignored } = read(nulls, { ...nothing, webhook_url_override: null, environment: null });
  expect(connection).toEqual(read(oauth2).connection);
  expect(ignored).toEqual([]);
});

it("distinguishes an empty set from a missing one", () => {
  const { connection } = read(oauth2, { metadata: {}, tags: {}, webhook_url_override: "" });
  expect(connection).toMatchObject({ metadata: {}, tags: { tags: {} }, webhookUrlOverride: "" });
});

it.each([
  [{ type: "OAUTH2", refresh_token: "rt" }, "oauth2", { accessToken: "", refreshToken: "rt" }],
  [
    { ...oauth2, config_override: { client_id: "id", client_secret: "s" } },
    "oauth2",
    { configOverride: { clientId: "id", clientSecret: "s" } },
  ],
  [
    { type: "OAUTH2_CC", client_id: "id", client_secret: "s", token: "t" },
    "oauth2Client",
    { clientId: "id", clientSecret: "s", token: "t" },
  ],
  [
    { type: "OAUTH2_CC", client_id: "id", client_certificate: "pem", client_private_key: "pem" },
    "oauth2Client",
    { clientId: "id", clientSecret: "" },
  ],
  [{ type: "OAUTH1", oauth_token: "t", oauth_token_secret: "s" }, "oauth1", { oauthToken: "t", oauthTokenSecret: "s" }],
  [{ type: "API_KEY", apiKey: "k" }, "apiKey", { apiKey: "k" }],
  [{ type: "BASIC", username: "ada", password: "" }, "basic", { username: "ada", password: "" }],
  [{ type: "TBA", token_id: "t", token_secret: "s" }, "tba", { tokenId: "t", tokenSecret: "s" }],
  [{ type: "APP", app_id: "1", installation_id: "2" }, "app", { appId: "1", installationId: "2" }],
  [
    { type: "JWT", privateKeyId: "kid", claims: { iss: "me" } },
    "jwt",
    { token: "", fields: { privateKeyId: "kid", claims: { iss: "me" } } },
  ],
  [
    { type: "TWO_STEP", token: "t", clientKey: "k", raw: { a: 1 } },
    "twoStep",
    { token: "t", fields: { clientKey: "k" }, raw: { a: 1 } },
  ],
  [{ type: "SIGNATURE", username: "u", password: "p" }, "signature", { username: "u", password: "p" }],
  [
    { type: "AWS_SIGV4", access_key_id: "a", secret_access_key: "s", region: "eu-central-1", service: "s3" },
    "awsSigv4",
    { accessKeyId: "a", secretAccessKey: "s", region: "eu-central-1", service: "s3" },
  ],
  [{ type: "NONE" }, "none", {}],
] as const)("reads credentials such as %o", (credentials, kind, value) => {
  expect(kindOf(credentials)).toMatchObject({ case: kind, value });
});

it("knows every type that the wire names", () => {
  const wire = ["API_KEY", "APP", "AWS_SIGV4", "BASIC", "CLIENT_CERTIFICATE", "JWT", "NONE", "OAUTH1", "OAUTH2"];
  expect([...credentialTypes].sort()).toEqual([...wire, "OAUTH2_CC", "ON_BEHALF", "SIGNATURE", "TBA", "TWO_STEP"]);
});

it.each([
  ["2030-01-01T00:00:00Z", "2030-01-01T00:00:00.000Z"],
  ["2030-01-01T02:00:00.5+02:00", "2030-01-01T00:00:00.500Z"],
  ["2030-01-01 00:00:00.123456Z", "2030-01-01T00:00:00.123Z"],
  [1_893_456_000, "2030-01-01T00:00:00.000Z"],
  [1_893_456_000_000, "2030-01-01T00:00:00.000Z"],
  ["1893456000", "2030-01-01T00:00:00.000Z"],
  ["1893456000000", "2030-01-01T00:00:00.000Z"],
  [99_999_999_999, "5138-11-16T09:46:39.000Z"],
  [100_000_000_000, "1973-03-03T09:46:40.000Z"],
  ["1999-12-31T23:59:59Z", "1999-12-31T23:59:59.000Z"],
])("I04 reads expires_at %s", (expires_at, expected) => {
  const kind = kindOf({ ...oauth2, expires_at });
  const at = kind?.case === "oauth2" ? kind.value.expiresAt : undefined;
  expect(at && timestampDate(at).toISOString()).toBe(expected);
});

it.each([
  "",
  "soon",
  "2030-01-01",
  "2030-01-01T00:00:00",
  "2030-02-30T00:00:00Z",
  "2030-01-01T25:00:00Z",
  -1,
  1e300,
  true,
  {},
])("refuses expires_at %j rather than guess", (expires_at) => {
  expect(mistakesOf({ ...oauth2, expires_at })).toEqual({
    "credentials.expires_at": expect.stringContaining("must be a time"),
  });
});

it("refuses expires_in, which has no start", () => {
  expect(mistakesOf({ ...oauth2, expires_in: 3600 })).toEqual({
    "credentials.expires_in": expect.stringContaining("expires_at"),
  });
});

it("reports all mistakes at once", () => {
  const mistakes = mistakesIn({
    connection_id: 7,
    credentials: { type: "OAUTH2_CC", client_id: 1, raw: [], expires_at: "soon" },
    metadata: [],
    connection_config: "x",
    tags: { a: 1, b: "fine", c: null },
    end_user: { email: "ada@example.com", organization: {} },
    webhook_url_override: {},
  });
  expect(Object.keys(mistakes).sort()).toEqual([
    "connection_config",
    "connection_id",
    "credentials.client_id",
    "credentials.client_secret",
    "credentials.expires_at",
    "credentials.raw",
    "end_user.id",
    "end_user.organization.id",
    "metadata",
    "provider_config_key",
    "tags.a",
    "tags.c",
    "webhook_url_override",
  ]);
});

it.each([
  [{ type: "OAUTH2" }, "credentials.access_token"],
  [{ type: "OAUTH2", access_token: 5 }, "credentials.access_token"],
  [{ type: "API_KEY", api_key: "k" }, "credentials.apiKey"],
  [{ type: "BASIC", username: "", password: "" }, "credentials.username"],
  [{ type: "APP", app_id: "1" }, "credentials.installation_id"],
  [{}, "credentials.type"],
  [{ type: "constructor" }, "credentials.type"],
  [undefined, "credentials"],
  [null, "credentials"],
  ["token", "credentials"],
])("names the one field that is wrong in %j", (credentials, path) => {
  expect(Object.keys(mistakesOf(credentials))).toEqual([path]);
});

it("names an unknown type, and the known ones", () => {
  expect(mistakesOf({ type: "OAUTH3" })["credentials.type"]).toMatch(/"OAUTH3" is not.*OAUTH2.*NONE/);
});

it.each([null, [], "x", 1, undefined])("refuses %j for a connection", (value) => {
  expect(mistakesIn(value)).toEqual({ "": "must be a JSON object" });
});

it("never quotes a value", () => {
  const all = [
    { type: secret, access_token: secret },
    { type: "sk live 1234567890 with blanks" },
    { type: "OAUTH2", access_token: [secret], expires_at: secret, expires_in: secret, raw: secret },
    secret,
  ].map((credentials) => JSON.stringify(mistakesOf(credentials, { metadata: secret, tags: { a: [secret] } })));
  // A type may be quoted: it looks like the name of one.
  expect(all.slice(1).join()).not.toContain(secret);
  expect(all[1]).not.toContain("sk live");
});

it("collects unknown fields instead of refusing them", () => {
  const { ignored } = read(
    { ...oauth2, scope: "a", config_override: { client_id: "id", x: 1 } },
    { from: "nango", end_user: { id: "1", plan: "free" } },
  );
  expect([...ignored].sort()).toEqual(["credentials.config_override.x", "credentials.scope", "end_user.plan", "from"]);
});

it("refuses values that protobuf would change or lose", () => {
  const overflowing: unknown = JSON.parse('{"a":[1,1e999]}');
  expect(mistakesOf(oauth2, { metadata: overflowing })).toEqual({ "metadata.a.1": "must be a finite number" });
  expect(mistakesOf({ type: "API_KEY", apiKey: "\ud800" })).toHaveProperty(["credentials.apiKey"]);
  expect(mistakesOf(oauth2, { tags: { a: "\udc00" } })).toHaveProperty(["tags.a"]);
  expect(mistakesOf(oauth2, { metadata: { "\ud800": 1 } })).toHaveProperty(["metadata"]);
  expect(mistakesOf({ type: "JWT", key: "\ud800" })).toHaveProperty(["credentials.key"]);
});

it("refuses nesting at which readers give up, however deep it is", () => {
  const deep: unknown = JSON.parse(`${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`);
  const message = Object.values(mistakesOf(oauth2, { metadata: deep }));
  expect(message).toEqual([expect.stringContaining("deep")]);
});

it("takes the names of JavaScript's own for fields like any other", () => {
  const metadata: unknown = JSON.parse('{"__proto__":{"a":1},"constructor":"x"}');
  const { connection } = read(oauth2, { metadata, tags: JSON.parse('{"__proto__":"x"}') });
  expect(Object.keys(connection.metadata ?? {})).toEqual(["__proto__", "constructor"]);
  expect(Object.entries(connection.tags?.tags ?? {})).toEqual([["__proto__", "x"]]);
});

it("limits its findings to a readable number", () => {
  const tags = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`t${at}`, at]));
  expect(Object.keys(mistakesOf(oauth2, { tags }))).toHaveLength(100);
});
