import {
  type ApiProvider,
  type ApiPublicConnectionFull,
  type ApiPublicIntegration,
  type GetPublicConnections,
  Nango,
} from "@nangohq/node";
import { beforeAll, describe, expect, it } from "vitest";
import { sidecarOfFile } from "../support/sidecar/door.ts";
import { everyKind, integrationOf, setUpEveryKind } from "../support/sidecar/every-kind.ts";
import { keyedConnection, secretKey } from "../support/sidecar/harness.ts";

const running = sidecarOfFile();
const nango = () => new Nango({ host: running().data, secretKey });

type Check = (value: unknown) => boolean;
const text: Check = (value) => typeof value === "string";
const number: Check = (value) => Number.isSafeInteger(value);
const flag: Check = (value) => typeof value === "boolean";
const timestamp: Check = (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(String(value));
const or =
  (...checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value));
const nothing: Check = (value) => value === null;
const object: Check = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const recordOf =
  (check: Check): Check =>
  (value) =>
    object(value) && Object.values(value as object).every(check);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const fields =
  (shape: Readonly<Record<string, Check>>): Check =>
  (value) =>
    object(value) && wrongFields(value as object, shape).length === 0;
const wrongFields = (value: object, shape: Readonly<Record<string, Check>>) =>
  Object.entries(shape).flatMap(([name, check]) =>
    check((value as Record<string, unknown>)[name])
      ? []
      : [`${name}: ${JSON.stringify((value as Record<string, unknown>)[name])}`],
  );

// The fields are the SDK's own types: one that these have and a table lacks does not compile.
type ShapeOf<T> = { readonly [K in keyof Required<T>]: Check };
type Item = GetPublicConnections["Success"]["connections"][number];
type EndUser = NonNullable<Item["end_user"]>;

const organization = { id: text, display_name: or(text, nothing) } satisfies ShapeOf<
  NonNullable<EndUser["organization"]>
>;
const endUser = {
  id: text,
  display_name: or(text, nothing),
  email: or(text, nothing),
  tags: or(recordOf(text), nothing),
  organization: or(fields(organization), nothing),
} satisfies ShapeOf<EndUser>;
const error = { type: text, log_id: text } satisfies ShapeOf<Item["errors"][number]>;
const item = {
  id: number,
  connection_id: text,
  provider_config_key: text,
  provider: text,
  created: timestamp,
  metadata: object,
  errors: listOf(fields(error)),
  end_user: or(fields(endUser), nothing),
  tags: recordOf(text),
} satisfies ShapeOf<Item>;
const full = {
  id: number,
  connection_id: text,
  provider_config_key: text,
  provider: text,
  connection_config: object,
  webhook_url_override: or(text, nothing),
  created_at: timestamp,
  updated_at: timestamp,
  last_fetched_at: timestamp,
  metadata: object,
  errors: listOf(fields(error)),
  end_user: or(fields(endUser), nothing),
  tags: recordOf(text),
  credentials: object,
} satisfies ShapeOf<ApiPublicConnectionFull>;
type PlainIntegration = Omit<
  ApiPublicIntegration,
  "webhook_url" | "credentials" | "credentials_label" | "preconfigured_credentials" | "preconfigured_connection_config"
>;
const integration = {
  unique_key: text,
  provider: text,
  display_name: text,
  forward_webhooks: flag,
  created_at: timestamp,
  updated_at: timestamp,
  logo: text,
} satisfies ShapeOf<PlainIntegration>;
const provider = {
  name: text,
  display_name: text,
  auth_mode: text,
  docs: text,
  logo_url: text,
} satisfies Partial<ShapeOf<ApiProvider>>;

const user = {
  id: "u-ada",
  email: "ada@example.com",
  display_name: "Ada",
  tags: { plan: "free" },
  organization: { id: "acme", display_name: "Acme" },
};

beforeAll(async () => {
  const { rest } = running();
  const put = async (body: object) => {
    const { status } = await rest("POST", "/connections", { body });
    if (status !== 201) throw new Error(`a connection was answered ${status}`);
  };
  await put(keyedConnection("ada", { end_user: user, tags: { Team: "red" }, metadata: { a: 1 } }));
  await put(keyedConnection("bob", { end_user: { id: "u-bob" }, tags: { team: "red" } }));
  await put(keyedConnection("cyd", { tags: { team: "blue" } }));
  await put({
    provider_config_key: "calendar",
    connection_id: "ada",
    credentials: {
      type: "OAUTH2",
      access_token: "access",
      refresh_token: "refresh",
      expires_at: "2999-01-01T00:00:00.000Z",
      raw: { access_token: "access", authed: { refresh_token: "refresh" } },
    },
  });
  await put({
    provider_config_key: "first",
    connection_id: "ada",
    credentials: { type: "OAUTH1", oauth_token: "t", oauth_token_secret: "s" },
  });
});

/** The parts of an error that a caller of the SDK reads. */
async function failureOf(call: Promise<unknown>) {
  const failure = await call.then(
    () => undefined,
    (reason: unknown) =>
      reason as { response?: { status: number; data: { error: { code: string; message: string } } } },
  );
  return { status: failure?.response?.status, code: failure?.response?.data.error.code };
}

describe("connections", () => {
  const ids = ({ connections }: GetPublicConnections["Success"]) =>
    connections.map(({ provider_config_key, connection_id }) => `${provider_config_key}/${connection_id}`);
  /** The SDK reads a page though its types do not name one. */
  const listBy = (params: object) => nango().listConnections(params);

  it("lists by the old signature", async () => {
    expect(ids(await nango().listConnections())).toEqual([
      "calendar/ada",
      "first/ada",
      "keyed/ada",
      "keyed/bob",
      "keyed/cyd",
    ]);
    expect(ids(await nango().listConnections("bob"))).toEqual(["keyed/bob"]);
    expect(ids(await nango().listConnections(undefined, "ADA@example"))).toEqual(["keyed/ada"]);
    expect(ids(await nango().listConnections(undefined, undefined, { endUserId: "u-bob" }))).toEqual(["keyed/bob"]);
    const acme = { endUserOrganizationId: "acme" };
    expect(ids(await nango().listConnections(undefined, undefined, acme))).toEqual(["keyed/ada"]);
    expect(ids(await nango().listConnections(undefined, undefined, { limit: 2 }))).toEqual([
      "calendar/ada",
      "first/ada",
    ]);
    const second = { limit: 2, page: 1 };
    expect(ids(await nango().listConnections(undefined, undefined, second))).toEqual(["keyed/ada", "keyed/bob"]);
  });

  it("lists by the new signature", async () => {
    expect(ids(await listBy({}))).toHaveLength(5);
    expect(ids(await listBy({ connectionId: "ada" }))).toEqual(["calendar/ada", "first/ada", "keyed/ada"]);
    expect(ids(await listBy({ integrationId: "keyed" }))).toHaveLength(3);
    expect(ids(await listBy({ integrationId: ["calendar", "first"] }))).toEqual(["calendar/ada", "first/ada"]);
    expect(ids(await listBy({ userId: "u-ada" }))).toEqual(["keyed/ada"]);
    expect(ids(await listBy({ tags: { TEAM: "red" } }))).toEqual(["keyed/ada", "keyed/bob"]);
    expect(ids(await listBy({ tags: { displayName: "Ada", email: "ada@example.com" } }))).toEqual(["keyed/ada"]);
    expect(ids(await listBy({ tags: { team: "red" }, userId: "u-bob", integrationId: ["keyed"] }))).toEqual([
      "keyed/bob",
    ]);
    expect(ids(await listBy({ tags: { team: "green" } }))).toEqual([]);
    expect(ids(await listBy({ limit: 3, page: 1 }))).toEqual(["keyed/bob", "keyed/cyd"]);
    expect(ids(await listBy({ limit: 3, page: 2 }))).toEqual([]);
  });

  it("have in a list every field of the SDK's type, and no credentials", async () => {
    const { connections } = await nango().listConnections();
    for (const one of connections) {
      expect(wrongFields(one, item)).toEqual([]);
      expect(one).not.toHaveProperty("credentials");
    }
    const ada = connections.find(({ provider_config_key }) => provider_config_key === "keyed");
    expect(ada?.end_user).toEqual(user);
  });

  it("are shown with every field of the SDK's type", async () => {
    for (const key of ["keyed", "calendar", "first"]) {
      const one = await nango().getConnection(key, "ada");
      expect(wrongFields(one, full)).toEqual([]);
    }
    expect((await nango().getConnection("keyed", "ada")).end_user).toEqual(user);
  });

  it("show their refresh token on request", async () => {
    const { credentials } = await nango().getConnection("calendar", "ada");
    expect(credentials).toEqual({
      type: "OAUTH2",
      access_token: "access",
      expires_at: "2999-01-01T00:00:00.000Z",
      raw: { access_token: "access", authed: {} },
    });
    const shown = await nango().getConnection("calendar", "ada", false, true);
    expect(shown.credentials).toMatchObject({
      refresh_token: "refresh",
      raw: { authed: { refresh_token: "refresh" } },
    });
  });

  it("that cannot be refreshed are returned although a refresh was requested", async () => {
    expect((await nango().getConnection("keyed", "ada", true)).credentials).toMatchObject({ apiKey: "key-of-ada" });
    expect((await nango().getConnection("keyed", "ada", true, true, true)).connection_id).toBe("ada");
  });

  it("give their token in the SDK's forms", async () => {
    expect(await nango().getToken("calendar", "ada")).toBe("access");
    expect(await nango().getToken("first", "ada")).toEqual({ oAuthToken: "t", oAuthTokenSecret: "s" });
    expect(await nango().getToken("keyed", "ada")).toEqual({ type: "API_KEY", apiKey: "key-of-ada" });
    expect(await nango().getRawTokenResponse("calendar", "ada")).toEqual({ access_token: "access", authed: {} });
  });

  it("have metadata to set, merge and read", async () => {
    const set = await nango().setMetadata("keyed", "cyd", { a: 1, b: { c: 2 } });
    expect(set.status).toBe(201);
    expect(set.data).toEqual({ connection_id: "cyd", provider_config_key: "keyed", metadata: { a: 1, b: { c: 2 } } });
    const updated = await nango().updateMetadata("keyed", ["cyd", "bob"], { b: null });
    expect(updated.status).toBe(200);
    expect(updated.data.connection_id).toEqual(["cyd", "bob"]);
    expect(await nango().getMetadata("keyed", "cyd")).toEqual({ a: 1, b: null });
    expect(await nango().getMetadata("keyed", "bob")).toEqual({ b: null });
    await nango().setMetadata("keyed", "bob", {});
    expect(await nango().getMetadata("keyed", "bob")).toEqual({});
  });

  it("are changed and deleted", async () => {
    await running().rest("POST", "/connections", { body: keyedConnection("dee") });
    const ref = { connectionId: "dee", provider_config_key: "keyed" };
    const change = { tags: { Team: "green" }, end_user: { id: "u-dee" }, webhook_url_override: "https://a.example/x" };
    expect(await nango().patchConnection(ref as never, change)).toEqual({ success: true });
    expect(await nango().getConnection("keyed", "dee")).toMatchObject({
      tags: { team: "green", end_user_id: "u-dee" },
      end_user: { id: "u-dee" },
      webhook_url_override: "https://a.example/x",
    });
    const deleted = await nango().deleteConnection("keyed", "dee");
    expect({ status: deleted.status, data: deleted.data }).toEqual({ status: 200, data: { success: true } });
    expect(await failureOf(nango().deleteConnection("keyed", "dee"))).toEqual({
      status: 404,
      code: "unknown_connection",
    });
  });

  it("are waited for", async () => {
    expect(await nango().waitForConnection("keyed", "u-ada")).toMatchObject({ connection_id: "ada" });
  });
});

describe("credentials of every kind", () => {
  beforeAll(() => setUpEveryKind(running()));
  /** Fields that the SDK's types require, beside `type`; of kinds that its types know. */
  const required: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
    OAUTH2: { access_token: text, raw: object },
    OAUTH2_CC: { token: text, client_id: text, client_secret: text, raw: object },
    OAUTH1: { oauth_token: text, oauth_token_secret: text, raw: object },
    API_KEY: { apiKey: text },
    BASIC: { username: text, password: text },
    TBA: { token_id: text, token_secret: text },
    APP: { access_token: text, raw: object },
    JWT: {},
    TWO_STEP: { raw: object },
    SIGNATURE: { username: text, password: text },
    AWS_SIGV4: {
      role_arn: text,
      region: text,
      service: text,
      access_key_id: text,
      secret_access_key: text,
      session_token: text,
      raw: object,
    },
  };

  it.each(Object.entries(required))("%s has every field that the SDK's type requires", async (type, shape) => {
    const kind = everyKind.find((one) => one.type === type);
    if (kind === undefined) throw new Error(`there is no kind ${type}`);
    const key = integrationOf(kind);
    for (const some of [...(kind.isAskedFor === true ? [] : [kind.least]), kind.whole((name) => name)]) {
      const body = { provider_config_key: key, connection_id: "c", credentials: { type, ...some } };
      await running().rest("POST", "/connections", { body });
      const { credentials } = await nango().getConnection(key, "c");
      expect(wrongFields(credentials, { type: (value) => value === type, ...shape })).toEqual([]);
      const { expires_at } = credentials as { expires_at?: unknown };
      if (expires_at !== undefined) expect(timestamp(expires_at)).toBe(true);
    }
  });
});

describe("integrations", () => {
  it("are created, shown, changed and deleted", async () => {
    const created = await nango().createIntegration({
      provider: "calendar",
      unique_key: "made-by-sdk",
      display_name: "Made by the SDK",
      credentials: { type: "OAUTH2", client_id: "id", client_secret: "secret", scopes: "a,b", webhook_secret: "w" },
      forward_webhooks: false,
      integration_config: { region: "eu" },
    });
    expect(wrongFields(created.data, integration)).toEqual([]);
    expect(created.data).toMatchObject({ display_name: "Made by the SDK", forward_webhooks: false });
    expect(created.data).not.toHaveProperty("credentials");

    const at = { uniqueKey: "made-by-sdk" };
    expect((await nango().getIntegration(at)).data).toEqual(created.data);
    const { data: withUrl } = await nango().getIntegration(at, { include: ["webhook"] });
    expect(withUrl.webhook_url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/webhook\/[\w-]{20,}\/made-by-sdk$/);
    const { data: withApp } = await nango().getIntegration(at, { include: ["credentials"] });
    expect(withApp.credentials).toEqual({
      type: "OAUTH2",
      client_id: "id",
      client_secret: "secret",
      scopes: "a,b",
      webhook_secret: "w",
    });

    const updated = await nango().updateIntegration(at, {
      display_name: "Renamed",
      forward_webhooks: true,
      credentials: { type: "OAUTH2", client_id: "id-2", client_secret: "secret-2" },
    });
    expect(updated.data).toMatchObject({ display_name: "Renamed", forward_webhooks: true });
    const { data: after } = await nango().getIntegration(at, { include: ["credentials"] });
    expect(after.credentials).toMatchObject({ client_id: "id-2", client_secret: "secret-2", scopes: "a,b" });
    expect((await nango().updateIntegration(at, {})).data.display_name).toBe("Renamed");

    expect((await nango().deleteIntegration("made-by-sdk")).data).toEqual({ success: true });
    expect(await failureOf(nango().getIntegration(at))).toEqual({ status: 404, code: "unknown_provider_config" });
  });

  it("have a name though none was given, and credentials that are null", async () => {
    const { data } = await nango().getIntegration({ uniqueKey: "keyed" }, { include: ["credentials"] });
    expect(data).toMatchObject({ display_name: "Example (API key)", credentials: null });
  });

  it("of an installed app hold its id and its key", async () => {
    await running().rest("GET", "/health");
    const app = { type: "APP" as const, app_id: "7", app_link: "https://a.example", private_key: "pem" };
    const at = { uniqueKey: "kind-app" };
    await nango().updateIntegration(at, { credentials: app });
    const { data } = await nango().getIntegration(at, { include: ["credentials"] });
    expect(data.credentials).toEqual({ type: "APP", app_id: "7", app_link: null, private_key: "pem" });
  });

  it("are listed with every field of the SDK's type", async () => {
    const { configs } = await nango().listIntegrations();
    expect(configs.length).toBeGreaterThanOrEqual(4);
    for (const one of configs) expect(wrongFields(one, integration)).toEqual([]);
    expect(configs.map(({ unique_key }) => unique_key)).toEqual(configs.map(({ unique_key }) => unique_key).sort());
  });

  it("are refused with the reason", async () => {
    const create = (more: object) =>
      failureOf(nango().createIntegration({ provider: "calendar", unique_key: "x", ...more } as never));
    expect(await create({ unique_key: "keyed" })).toEqual({ status: 409, code: "already_exists" });
    expect(await create({ provider: "nobody" })).toEqual({ status: 404, code: "unknown_provider" });
    expect(await create({ unique_key: "a/b" })).toEqual({ status: 400, code: "invalid_body" });
    expect(await create({ unique_key: "" })).toEqual({ status: 400, code: "invalid_body" });
    expect(await create({ display_name: "x".repeat(201) })).toEqual({ status: 400, code: "invalid_body" });
    expect(await create({ forward_webhooks: "yes" })).toEqual({ status: 400, code: "invalid_body" });
    expect(await create({ integration_config: { a: 1 } })).toEqual({ status: 400, code: "invalid_body" });
    const app = { client_id: "i", client_secret: "s" };
    expect(await create({ credentials: { type: "OAUTH1", ...app } })).toEqual({ status: 400, code: "invalid_body" });
    expect(await failureOf(nango().updateIntegration({ uniqueKey: "keyed" }, { unique_key: "new" }))).toEqual({
      status: 400,
      code: "invalid_body",
    });
    expect(await failureOf(nango().deleteIntegration("keyed"))).toEqual({ status: 409, code: "in_use" });
    expect(await failureOf(nango().deleteIntegration("nobody"))).toEqual({
      status: 404,
      code: "unknown_provider_config",
    });
    const quick = nango().createQuickstartIntegration({ provider: "calendar", unique_key: "quick" });
    expect(await failureOf(quick)).toEqual({ status: 400, code: "invalid_body" });
  });
});

describe("providers", () => {
  it("are listed and found, with every field that the SDK's type requires", async () => {
    const { data } = await nango().listProviders({});
    expect(data.map(({ name }) => name)).toEqual(expect.arrayContaining(["calendar", "file-storage", "unified"]));
    for (const one of data) {
      expect(wrongFields(one, provider)).toEqual([]);
      expect((await nango().getProvider({ provider: one.name })).data).toEqual(one);
      if (one.auth_mode === "OAUTH1") {
        expect(wrongFields(one, { request_url: text, signature_method: text })).toEqual([]);
      }
      for (const field of Object.values(one.connection_config ?? {})) {
        const shape = { type: text, title: text, description: text, order: number, automated: flag };
        expect(wrongFields(field, shape)).toEqual([]);
      }
      if (one.proxy !== undefined) expect(text(one.proxy.base_url)).toBe(true);
    }
    const { data: found } = await nango().listProviders({ search: "CALENDAR" });
    expect(found.map(({ name }) => name)).toEqual(["calendar", "google-calendar", "unified"]);
  });

  it("have no templates", async () => {
    expect((await nango().getProviderTemplates({ provider: "calendar" })).data).toEqual([]);
    const unknown = nango().getProviderTemplates({ provider: "nobody" });
    expect(await failureOf(unknown)).toEqual({ status: 404, code: "unknown_provider" });
  });
});

describe("errors", () => {
  it("are read as the SDK's users read them", async () => {
    expect(await failureOf(nango().getConnection("keyed", "nobody"))).toEqual({
      status: 404,
      code: "unknown_connection",
    });
    expect(await failureOf(nango().getConnection("nowhere", "ada"))).toEqual({
      status: 404,
      code: "unknown_provider_config",
    });
    expect(await failureOf(nango().getProvider({ provider: "nobody" }))).toEqual({
      status: 404,
      code: "unknown_provider",
    });
    expect(await failureOf(nango().setMetadata("keyed", "nobody", {}))).toEqual({
      status: 404,
      code: "unknown_connection",
    });
    expect(await failureOf(nango().listConnections({ limit: -1 }))).toEqual({
      status: 400,
      code: "invalid_query_params",
    });
    const stranger = new Nango({ host: running().data, secretKey: "wrong" });
    expect(await failureOf(stranger.listConnections())).toEqual({ status: 401, code: "unknown_key" });
    expect(await failureOf(nango().triggerSync("keyed", ["x"], "ada"))).toEqual({ status: 404, code: "unknown_sync" });
    expect(await failureOf(nango().get({ endpoint: "/x", providerConfigKey: "keyed", connectionId: "ada" }))).toEqual({
      status: 502,
      code: "provider_unknown",
    });
  });

  it("report of a dead connection that it must be authorized again", async () => {
    const credentials = { type: "OAUTH2", access_token: "t", expires_at: "2020-01-01T00:00:00Z" };
    const body = { provider_config_key: "calendar", connection_id: "dead", credentials };
    await running().rest("POST", "/connections", { body });
    expect(await failureOf(nango().getConnection("calendar", "dead"))).toEqual({
      status: 424,
      code: "reauthorization_required",
    });
    const { connections } = await nango().listConnections({ connectionId: "dead" });
    expect(connections).toHaveLength(1);
  });
});

it("creates connect sessions, and sessions to reconnect", async () => {
  await running().rest("POST", "/connections", { body: keyedConnection("to-reconnect") });
  const made = await nango().createConnectSession({ end_user: { id: "u" }, allowed_integrations: ["keyed"] });
  const again = await nango().createReconnectSession({ connection_id: "to-reconnect", integration_id: "keyed" });
  for (const { data } of [made, again]) {
    expect(wrongFields(data, { token: text, connect_link: text, expires_at: timestamp })).toEqual([]);
  }
});
