import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import type { Lookup } from "../../../src/core/notifications/notification.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { connecting, departure } from "../../support/sidecar/connecting.ts";
import { setUp, sidecarOfFile } from "../../support/sidecar/door.ts";
import { createIntegrations, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const running = sidecarOfFile();
const token = { type: "OAUTH2", access_token: "a" };
const uri = (calendar: string) => `https://cal.example/v3/calendars/${calendar}/events`;

const listed = (value: string): Lookup => ({ rule: 0, field: "metadata.calendarWatchResourceUris", values: [value] });
/** The rules of the catalogue's `calendar`, for a calendar of this address. */
const rulesFor = (address: string): readonly Lookup[] => [
  listed(uri(encodeURIComponent(address))),
  { rule: 1, field: "connection_config.emailAddressHash", values: [emailHash(address)] },
  { rule: 2, field: "metadata.emailAddress", values: [address] },
  { rule: 3, field: "metadata.email", values: [address] },
];

interface At {
  readonly sidecar?: TestSidecar;
  readonly environment?: string;
  readonly integration?: string;
}
const matched = (
  lookups: readonly Lookup[],
  { sidecar = running(), environment = "dev", integration = "calendar" }: At = {},
) => {
  const found = sidecar.sidecar.broker.resources.match({ environment, integration }, lookups);
  if (found instanceof Promise) throw new Error("the index is not in memory");
  const { rule, matches } = found;
  return { rule, ids: matches.map(({ id }) => id) };
};
const nobody = { rule: -1, ids: [] };
const idsOf = (value: string, at?: At) => matched([listed(value)], at).ids;

async function imported(id: string, more: object, { rest }: TestSidecar = running()): Promise<void> {
  const body = { provider_config_key: "calendar", connection_id: id, credentials: token, ...more };
  expect((await rest("POST", "/connections", { body })).status).toBe(201);
}
const watching = (id: string, ...uris: readonly string[]) =>
  imported(id, { metadata: { calendarWatchResourceUris: uris } });
const setMetadata = (id: string, metadata: object, method: "PATCH" | "POST" = "PATCH") =>
  running().rest(method, "/connection/metadata", {
    body: { connection_id: id, provider_config_key: "calendar", metadata },
  });
const ref = (id: string) => ({ environment: "dev", integration: "calendar", id });

describe("a connection is found", () => {
  it("as soon as it was imported, and no longer once it is deleted", async () => {
    await watching("come", uri("come"));
    expect(idsOf(uri("come"))).toEqual(["come"]);
    const { status } = await running().rest("DELETE", "/connections/come?provider_config_key=calendar");
    expect(status).toBe(200);
    expect(idsOf(uri("come"))).toEqual([]);
  });

  it("by the fields of a later item of the same batch", async () => {
    const item = (id: string, resource: string) => ({
      ...ref(id),
      credentials: { kind: { case: "oauth2" as const, value: { accessToken: "a" } } },
      metadata: { calendarWatchResourceUris: [uri(resource)] },
    });
    const connections = [item("twice", "batch-1"), item("other", "batch-1"), item("twice", "batch-2")];
    await running().client(ConnectionService).batchImportConnections({ connections });
    expect([idsOf(uri("batch-1")), idsOf(uri("batch-2"))]).toEqual([["other"], ["twice"]]);
  });

  it("by the fields of an import over an existing connection, and by those that it keeps", async () => {
    await watching("again", uri("again-1"));
    await imported("again", {});
    expect(idsOf(uri("again-1"))).toEqual(["again"]);
    await watching("again", uri("again-2"));
    expect([idsOf(uri("again-1")), idsOf(uri("again-2"))]).toEqual([[], ["again"]]);
  });

  it("by its metadata as it was merged, and as it was replaced", async () => {
    await imported("meta", { metadata: { email: "meta@example.com", calendarWatchResourceUris: [uri("m1")] } });
    await setMetadata("meta", { calendarWatchResourceUris: [uri("m1"), uri("m2")] });
    expect([idsOf(uri("m1")), idsOf(uri("m2"))]).toEqual([["meta"], ["meta"]]);
    expect(matched(rulesFor("meta@example.com"))).toEqual({ rule: 3, ids: ["meta"] });
    await setMetadata("meta", { calendarWatchResourceUris: [uri("m3")] }, "POST");
    expect([idsOf(uri("m1")), idsOf(uri("m2")), idsOf(uri("m3"))]).toEqual([[], [], ["meta"]]);
    expect(matched(rulesFor("meta@example.com"))).toEqual(nobody);
  });

  it("by its configuration as an RPC changed it", async () => {
    const config = (address: string) => ({ connectionConfig: { emailAddressHash: emailHash(address) } });
    await imported("configured", { connection_config: { emailAddressHash: emailHash("one@example.com") } });
    expect(matched(rulesFor("one@example.com"))).toEqual({ rule: 1, ids: ["configured"] });
    await running()
      .client(ConnectionService)
      .updateConnection({
        connection: { ref: ref("configured"), ...config("two@example.com") },
        updateMask: { paths: ["connection_config"] },
      });
    expect(matched(rulesFor("one@example.com"))).toEqual(nobody);
    expect(matched(rulesFor("two@example.com"))).toEqual({ rule: 1, ids: ["configured"] });
  });

  it("by nothing of a refused change", async () => {
    await watching("refused", uri("kept"));
    const { status } = await setMetadata("refused", { calendarWatchResourceUris: [uri("new"), 5] });
    expect(status).toBe(400);
    expect([idsOf(uri("kept")), idsOf(uri("new"))]).toEqual([["refused"], []]);
  });

  it("in its own integration and environment alone", async () => {
    const { rest } = running();
    await rest("POST", "/integrations", { body: { unique_key: "calendar-2", provider: "calendar" } });
    await watching("own", uri("own"));
    const elsewhere = { provider_config_key: "calendar-2", metadata: { calendarWatchResourceUris: [uri("own")] } };
    await imported("own-2", elsewhere);
    expect(idsOf(uri("own"))).toEqual(["own"]);
    expect(idsOf(uri("own"), { integration: "calendar-2" })).toEqual(["own-2"]);
    expect(idsOf(uri("own"), { environment: "prod" })).toEqual([]);
  });
});

it.each([
  ["%40 for @", uri("ada%40example.com"), uri("ada@example.com")],
  ["case", uri("Ada"), uri("ada")],
  ["case of an escape", uri("a%2Fb"), uri("a%2fb")],
  ["?alt=json", `${uri("alt")}?alt=json`, uri("alt")],
  ["a slash at the end", `${uri("slash")}/`, uri("slash")],
  ["NFC for NFD", uri("caf\u00e9"), uri("cafe\u0301")],
  ["a blank at the end", `${uri("blank")} `, uri("blank")],
])("W12 does not match a list by a URI that differs in %s, and falls back", async (name, inList, received) => {
  const id = `w12-${name.replaceAll(/[^a-z]/gi, "")}`;
  await imported(id, { metadata: { calendarWatchResourceUris: [inList], email: `${id}@example.com` } });
  expect(idsOf(inList)).toEqual([id]);
  const lookups = [listed(received), ...rulesFor(`${id}@example.com`).slice(1)];
  expect(matched(lookups)).toEqual({ rule: 3, ids: [id] });
});

it("W13 falls back to the address when only another calendar is listed", async () => {
  const address = "w13@example.com";
  await imported("w13", {
    metadata: { calendarWatchResourceUris: [uri("secondary")] },
    connection_config: { emailAddressHash: emailHash(address) },
  });
  expect(matched(rulesFor(address))).toEqual({ rule: 1, ids: ["w13"] });
});

it("W14 applies only the first rule that finds a connection", async () => {
  const address = "w14@example.com";
  await imported("w14-email", { metadata: { email: address } });
  expect(matched(rulesFor(address))).toEqual({ rule: 3, ids: ["w14-email"] });
  await imported("w14-address", { metadata: { emailAddress: address } });
  expect(matched(rulesFor(address))).toEqual({ rule: 2, ids: ["w14-address"] });
  await imported("w14-hash", { connection_config: { emailAddressHash: emailHash(address) } });
  expect(matched(rulesFor(address))).toEqual({ rule: 1, ids: ["w14-hash"] });
  await watching("w14-list", uri(encodeURIComponent(address)));
  expect(matched(rulesFor(address))).toEqual({ rule: 0, ids: ["w14-list"] });
  // A rule without a value is skipped.
  expect(matched(rulesFor(address).map((rule) => (rule.rule < 2 ? { ...rule, values: [""] } : rule)))).toEqual({
    rule: 2,
    ids: ["w14-address"],
  });
});

it("W11 names each of 1,000 connections that list the same, once and in their order", async () => {
  const ids = Array.from({ length: 1_000 }, (_, n) => `shared-${String(n).padStart(4, "0")}`);
  for (let from = 0; from < ids.length; from += 100) {
    const connections = ids.slice(from, from + 100).map((id) => ({
      ...ref(id),
      credentials: { kind: { case: "oauth2" as const, value: { accessToken: "a" } } },
      metadata: { calendarWatchResourceUris: [uri("shared"), uri("shared"), uri(id)] },
    }));
    // In reverse, so that the expected order is no accident.
    await running().client(ConnectionService).batchImportConnections({ connections: connections.reverse() });
  }
  expect(idsOf(uri("shared"))).toEqual(ids);
  await setMetadata("shared-0500", { calendarWatchResourceUris: [] });
  expect(idsOf(uri("shared"))).toEqual(ids.filter((id) => id !== "shared-0500"));
});

it("finds a connection by each of 10,000 that it lists", async () => {
  const all = Array.from({ length: 10_000 }, (_, n) => `https://c/${n}`);
  await watching("many", ...all);
  expect(all.filter((one) => idsOf(one)[0] !== "many")).toEqual([]);
  await setMetadata("many", { calendarWatchResourceUris: all.slice(5_000) });
  expect(all.filter((one) => idsOf(one)[0] === "many")).toEqual(all.slice(5_000));
});

it("finds a connection by the data of its end user's consent, also after the next one", async () => {
  const all = await connecting();
  const { sidecar } = all;
  const key = "sandbox-calendar";
  const browser = all.browser();
  await browser.go(departure(all, await all.session(), {}, key));
  const id = (await all.connections())[0]?.connection_id ?? "";
  const hash = () =>
    all.connection(key, id).then(({ connection_config }) => (connection_config as JsonObject)["emailAddressHash"]);
  const brought = String(await hash());
  expect(brought).toMatch(/^[0-9a-f]{64}$/);
  const byHash = (value: string) =>
    matched([{ rule: 1, field: "connection_config.emailAddressHash", values: [value] }], { sidecar, integration: key })
      .ids;
  expect(byHash(brought)).toEqual([id]);
  const other = emailHash("other@example.com");
  await sidecar.client(ConnectionService).updateConnection({
    connection: { ref: { environment: "dev", integration: key, id }, connectionConfig: { emailAddressHash: other } },
    updateMask: { paths: ["connection_config"] },
  });
  expect([byHash(brought), byHash(other)]).toEqual([[], [id]]);
  const again = await all.reconnectSession(id, { integration_id: key });
  await browser.go(departure(all, again, {}, key));
  expect([byHash(brought), byHash(other)]).toEqual([[id], []]);
});

const custom = (...fields: readonly string[]) => ({
  name: "wiki",
  displayName: "Wiki",
  auth: { case: "apiKey" as const, value: { header: "x-key" } },
  proxy: { baseUrl: "https://wiki.example" },
  notification: {
    values: { page: { header: "x-page" } },
    lookups: fields.map((field) => ({ field, value: "page" })),
  },
});
const page = (field: string, value: string): Lookup => ({ rule: 0, field, values: [value] });
const wiki = { integration: "wiki" };
const wikiPage = (id: string, metadata: object) => ({
  provider_config_key: "wiki",
  connection_id: id,
  credentials: { type: "API_KEY", apiKey: "k" },
  metadata,
});

describe("when a provider looks in other fields than before", () => {
  it("its connections are indexed again, and found by unchanged fields in the meantime", async () => {
    const sidecar = await startTestSidecar();
    await setUp(sidecar, custom("metadata.page"));
    for (let n = 0; n < 250; n += 1) {
      const body = wikiPage(`c${n}`, { page: `p${n}`, space: `s${n}` });
      expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
    }
    const at = { sidecar, ...wiki };
    const found = (field: string, prefix: string) =>
      Array.from({ length: 250 }, (_, n) => matched([page(field, `${prefix}${n}`)], at).ids.length);
    const all = Array.from({ length: 250 }, () => 1);
    expect([found("metadata.page", "p"), found("metadata.space", "s")]).toEqual([all, all.map(() => 0)]);

    const provider = custom("metadata.page", "metadata.space");
    await sidecar.client(ProviderService).updateProvider({ provider });
    // Looked at as often as the loop turns.
    let isKept = true;
    for (let isDone = false; !isDone; ) {
      await new Promise((resolve) => setImmediate(resolve));
      isKept &&= found("metadata.page", "p").every((count) => count === 1);
      isDone = found("metadata.space", "s").every((count) => count === 1);
    }
    expect(isKept).toBe(true);

    await sidecar.client(ProviderService).updateProvider({ provider: custom("metadata.space") });
    await expect.poll(() => found("metadata.page", "p")).toEqual(all.map(() => 0));
    expect(found("metadata.space", "s")).toEqual(all);
    expect(await sidecar.metric("latchkey_resource_index_entries")).toBe(250);
  });

  it("a deleted connection is gone though it was filed by former fields", async () => {
    const sidecar = await startTestSidecar();
    await setUp(sidecar, custom("metadata.page"));
    await sidecar.rest("POST", "/connections", { body: wikiPage("one", { page: "p", space: "s" }) });
    expect(await sidecar.metric("latchkey_resource_index_entries")).toBe(1);
    await Promise.all([
      sidecar.client(ProviderService).updateProvider({ provider: custom() }),
      sidecar.rest("DELETE", "/connections/one?provider_config_key=wiki"),
    ]);
    await expect.poll(() => sidecar.metric("latchkey_resource_index_entries")).toBe(0);
  });

  it("by a changed file, at the next start", async () => {
    const files = (field: string) => ({
      "/latchkey.yaml": JSON.stringify({
        providers: [
          {
            name: "wiki",
            display_name: "Wiki",
            api_key: { header: "x-key" },
            proxy: { base_url: "https://wiki.example" },
            notification: { values: { page: { header: "x-page" } }, lookups: [{ field, value: "page" }] },
          },
        ],
      }),
    });
    const env = { LATCHKEY_CONFIG: "/latchkey.yaml" };
    const first = await startTestSidecar({ env, files: files("metadata.page") });
    await first.rest("POST", "/integrations", { body: { unique_key: "wiki", provider: "wiki" } });
    await first.rest("POST", "/connections", { body: wikiPage("one", { page: "p", space: "s" }) });
    await first.sidecar.broker.keepHouse();
    await first.stop();

    const second = await startTestSidecar({ env, files: files("metadata.space"), folder: first.folder });
    const at = { sidecar: second, ...wiki };
    await expect.poll(() => matched([page("metadata.space", "s")], at).ids).toEqual(["one"]);
    expect(matched([page("metadata.page", "p")], at).ids).toEqual([]);
    await second.stop();

    // The file is gone: changes are still indexed as before.
    const third = await startTestSidecar({ folder: first.folder });
    await third.rest("PATCH", "/connection/metadata", {
      body: { connection_id: "one", provider_config_key: "wiki", metadata: { space: "s2" } },
    });
    await third.stop();
    const fourth = await startTestSidecar({ env, files: files("metadata.space"), folder: first.folder });
    expect(matched([page("metadata.space", "s2")], { sidecar: fourth, ...wiki }).ids).toEqual(["one"]);
    expect(matched([page("metadata.space", "s")], { sidecar: fourth, ...wiki }).ids).toEqual([]);
  });
});

it("matches after a restart as before", async () => {
  const first = await startTestSidecar();
  await createIntegrations(first);
  for (let n = 0; n < 1_200; n += 100) {
    const connections = Array.from({ length: 100 }, (_, i) => ({
      ...ref(`r${n + i}`),
      credentials: { kind: { case: "oauth2" as const, value: { accessToken: "a" } } },
      metadata: { calendarWatchResourceUris: [uri(`r${n + i}`), uri("all")] },
    }));
    await first.client(ConnectionService).batchImportConnections({ connections });
  }
  const before = idsOf(uri("all"), { sidecar: first });
  expect(before).toHaveLength(1_200);
  await first.stop();
  const second = await startTestSidecar({ folder: first.folder });
  expect(idsOf(uri("all"), { sidecar: second })).toEqual(before);
  expect(idsOf(uri("r777"), { sidecar: second })).toEqual(["r777"]);
  expect(await second.metric("latchkey_resource_index_entries")).toBe(2_400);
  expect(await second.metric("latchkey_resource_index_bytes")).toBeGreaterThan(2_400 * 32);
});

describe.skipIf(lacks("postgres"))("replicas over PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("find what another replica imported, changed and deleted, and reindex once for all", async () => {
    const env = { LATCHKEY_STORE: server.storeUrl("resources") };
    const [one, two] = [await startTestSidecar({ env }), await startTestSidecar({ env })];
    await createIntegrations(one);
    await imported("ada", { metadata: { calendarWatchResourceUris: [uri("ada")] } }, one);
    const soon = { interval: 20 };
    await expect.poll(() => idsOf(uri("ada"), { sidecar: two }), soon).toEqual(["ada"]);
    const body = { connection_id: "ada", provider_config_key: "calendar" };
    const metadata = { calendarWatchResourceUris: [uri("eve")] };
    await two.rest("PATCH", "/connection/metadata", { body: { ...body, metadata } });
    await expect.poll(() => idsOf(uri("eve"), { sidecar: one }), soon).toEqual(["ada"]);
    expect(idsOf(uri("ada"), { sidecar: one })).toEqual([]);
    await one.rest("DELETE", "/connections/ada?provider_config_key=calendar");
    await expect.poll(() => idsOf(uri("eve"), { sidecar: two }), soon).toEqual([]);

    await setUp(one, custom("metadata.page"));
    await one.rest("POST", "/connections", { body: wikiPage("one", { page: "p", space: "s" }) });
    await two.client(ProviderService).updateProvider({ provider: custom("metadata.space") });
    for (const sidecar of [one, two]) {
      const ids = () => matched([page("metadata.space", "s")], { sidecar, ...wiki }).ids;
      await expect.poll(ids).toEqual(["one"]);
    }
  });
});
