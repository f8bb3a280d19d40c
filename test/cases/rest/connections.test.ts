import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ConnectionRefSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { setUp, sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const post = (body: unknown) => running().rest("POST", "/connections", { body });
const get = (id: string) => running().rest("GET", `/connections/${encodeURIComponent(id)}?provider_config_key=keyed`);
const patch = (id: string, body: unknown) =>
  running().rest("PATCH", `/connections/${id}?provider_config_key=keyed`, { body });

/** Status and code of a refusal, and the paths of the mistakes. */
const refusalOf = ({ status, body }: Awaited<ReturnType<typeof post>>) => ({
  status,
  code: body.error?.code,
  paths: body.error?.errors?.map(({ path }: { path: readonly string[] }) => path.join(".")) ?? [],
});
const refused = (...paths: readonly string[]) => ({ status: 400, code: "invalid_body", paths });

const manyTags = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`t${i}`, "x"]));
const tooLongKey = "k".repeat(65);

it.each<readonly [string, Readonly<Record<string, unknown>>, string]>([
  ["two keys that are one in lower case", { A: "1", a: "2" }, "tags.a"],
  ["two keys that are one in lower case, the other way about", { a: "1", A: "2" }, "tags.A"],
  ["a key that is not ASCII", { İ: "x" }, "tags.İ"],
  ["a number", { n: 1 }, "tags.n"],
  ["null", { n: null }, "tags.n"],
  ["an object", { n: {} }, "tags.n"],
  ["eleven tags", manyTags, "tags"],
  ["a key of 65 characters", { [tooLongKey]: "x" }, `tags.${tooLongKey}`],
  ["an empty value", { e: "" }, "tags.e"],
  ["a value of 256 characters", { v: "x".repeat(256) }, "tags.v"],
  ["an empty key", { "": "x" }, "tags."],
  ["a key that begins with a digit", { "1a": "x" }, "tags.1a"],
  ["a key with a blank", { "a b": "x" }, "tags.a b"],
  ["a value with a line break", { l: "a\nb" }, "tags.l"],
  ["a value with NUL", { z: "a\0b" }, "tags.z"],
  ["half a character", { h: "\ud800" }, "tags.h"],
  ["the name of a prototype", JSON.parse('{"__proto__":"x"}'), "tags.__proto__"],
])("R11 takes no tags with %s, and says which", async (_name, tags, path) => {
  expect(refusalOf(await post(keyedConnection("tagged", { tags })))).toEqual(refused(path));
  await post(keyedConnection("retagged"));
  expect(refusalOf(await patch("retagged", { tags }))).toEqual(refused(path));
});

it("R11 stores valid tags with their keys in lower case", async () => {
  const ten = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`Key-${i}`, `Value ${i}`]));
  const tags = { ...ten, ["K".repeat(64)]: "x".repeat(255), "A.b/C_d-9": "ünï 🙂", constructor: "c" };
  const { status, body } = await post(keyedConnection("well-tagged", { tags }));
  const lower = Object.fromEntries(Object.entries(tags).map(([key, value]) => [key.toLowerCase(), value]));
  expect({ status, tags: body.tags }).toEqual({ status: 201, tags: lower });
  expect((await get("well-tagged")).body.tags).toEqual(lower);
});

it("R11 answers ten thousand wrong tags with less than they were", async () => {
  const tags = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`${i} no tag`, ""]));
  const { status, body } = await post(keyedConnection("many-wrong", { tags }));
  expect(status).toBe(400);
  expect(JSON.stringify(body).length).toBeLessThan(1_000);
});

it("R12 takes an id of 255 characters", async () => {
  const id = "x".repeat(255);
  expect((await post(keyedConnection(id))).status).toBe(201);
  expect((await get(id)).body.connection_id).toBe(id);
});

it.each([
  ["256 characters", "x".repeat(256)],
  ["a line break", "a\nb"],
  ["NUL", "a\0b"],
  ["a path upwards", "../x"],
  ["a path upwards in its middle", "a/../b"],
  ["a path upwards for Windows", "a\\..\\b"],
  ["a dot", "."],
  ["a right-to-left override", "a\u202eb"],
  ["half a character", "\ud800"],
  ["an accent", "é"],
  ["a blank at its end", "a "],
])("R12 refuses an id with %s, and logs at most one line of it", async (_name, id) => {
  const linesBefore = running().logged.length;
  const credentials = { type: "API_KEY", apiKey: "k" };
  expect(refusalOf(await post(keyedConnection(id, { credentials })))).toEqual(refused("connection_id"));
  expect((await get(id.toWellFormed())).status).toBeGreaterThanOrEqual(400);
  for (const line of running().logged.slice(linesBefore)) expect(line.trimEnd()).not.toMatch(/[\n\r\u202e]/);
});

it.each(["a/b", "a%2Fb", "with blank", "~!@$&'()*+,;=:", "metadata", "__proto__", "constructor", "%00", "?x=1", "#"])(
  "R12 finds a connection whose id is %s again",
  async (id) => {
    expect((await post(keyedConnection(id))).status).toBe(201);
    expect((await get(id)).body.connection_id).toBe(id);
    const at = `/connections/${encodeURIComponent(id)}?provider_config_key=keyed`;
    expect((await running().rest("DELETE", at)).status).toBe(200);
    expect((await get(id)).status).toBe(404);
  },
);

it("R12 generates an id if there is none", async () => {
  const { connection_id: _, ...unnamed } = keyedConnection("");
  const [first, second] = [await post(unnamed), await post(keyedConnection(""))];
  for (const { body } of [first, second]) {
    expect(body.connection_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  expect(first.body.connection_id).not.toBe(second.body.connection_id);
});

it("R13 knows no integration that is not there, and takes no credentials of another type", async () => {
  const elsewhere = await post(keyedConnection("x", { provider_config_key: "nowhere" }));
  expect(refusalOf(elsewhere)).toEqual({ status: 404, code: "unknown_provider_config", paths: [] });
  for (const key of ["", " ", "__proto__", "constructor", "\0", "keyed\0x", "KEYED"]) {
    const { status } = await post(keyedConnection("x", { provider_config_key: key }));
    expect({ key, status }).toEqual({ key, status: key === "" ? 400 : 404 });
  }
  const basic = { type: "BASIC", username: "u", password: "p" };
  expect(refusalOf(await post(keyedConnection("x", { credentials: basic })))).toEqual(refused("credentials.type"));
  for (const type of ["TOKEN", "api_key", "__proto__", "constructor", ""]) {
    const wrong = await post(keyedConnection("x", { credentials: { type, apiKey: "k" } }));
    expect(refusalOf(wrong)).toEqual(refused("credentials.type"));
  }
});

it("R13 reports all mistakes of a connection at once", async () => {
  const wrong = {
    provider_config_key: "keyed",
    connection_id: 7,
    credentials: { type: "API_KEY" },
    metadata: [],
    connection_config: "x",
    tags: { a: 1 },
    end_user: { email: 3 },
  };
  expect(refusalOf(await post(wrong)).paths.sort()).toEqual(
    [
      "connection_config",
      "connection_id",
      "credentials.apiKey",
      "end_user.email",
      "end_user.id",
      "metadata",
      "tags.a",
    ].sort(),
  );
});

it("R13 takes no query with a new connection, and ignores fields it does not know", async () => {
  const { rest, metric } = running();
  const { status, body } = await rest("POST", "/connections?env=dev", { body: keyedConnection("x") });
  expect({ status, code: body.error.code }).toEqual({ status: 400, code: "invalid_query_params" });
  expect((await post(keyedConnection("unknown-fields", { future: 1, __proto: {} }))).status).toBe(201);
  expect(await metric('latchkey_ignored_fields_total{route="/connections"}')).toBeGreaterThanOrEqual(2);
});

it("R13 refuses a webhook address that is invalid or contains a password", async () => {
  for (const url of [
    "nowhere",
    "ftp://a.test",
    "https://u:p@a.test",
    "https://a.test/\nx",
    `https://a.test/${"x".repeat(2_048)}`,
  ]) {
    const answer = await post(keyedConnection("x", { webhook_url_override: url }));
    expect(refusalOf(answer)).toEqual(refused("webhook_url_override"));
    if (url.includes("u:p")) expect(JSON.stringify(answer.body)).not.toContain("u:p");
  }
});

it("R22 creates one connection from a hundred equal concurrent requests", async () => {
  const { client } = running();
  const body = keyedConnection("hundredfold", { metadata: { a: 1 } });
  const answers = await Promise.all(Array.from({ length: 100 }, () => post(body)));
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 201));
  expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
  const { body: list } = await running().rest("GET", "/connections?connectionId=hundredfold");
  expect(list.connections).toHaveLength(1);
  const { events } = await client(LogService).listAuditEvents({ environment: "dev", target: "keyed/hundredfold" });
  expect(events).toHaveLength(100);
});

it("R22 numbers connections apart, however many come at once", async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => post(keyedConnection(`numbered-${i}`))));
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(100);
});

it("R23 deletes once", async () => {
  await post(keyedConnection("deleted"));
  const remove = () => running().rest("DELETE", "/connections/deleted?provider_config_key=keyed");
  expect(await remove()).toMatchObject({ status: 200, body: { success: true } });
  expect(refusalOf(await remove())).toEqual({ status: 404, code: "unknown_connection", paths: [] });
  expect((await get("deleted")).status).toBe(404);
  expect((await running().rest("GET", "/connections?connectionId=deleted")).body.connections).toEqual([]);
});

it("R23 lets one of many concurrent deletions succeed", async () => {
  await post(keyedConnection("raced"));
  const remove = () => running().rest("DELETE", "/connections/raced?provider_config_key=keyed");
  const statuses = (await Promise.all(Array.from({ length: 20 }, remove))).map(({ status }) => status);
  expect(statuses.sort()).toEqual([200, ...Array.from({ length: 19 }, () => 404)]);
});

it("R23 keeps no credentials of a connection that is gone", async () => {
  await post(keyedConnection("forgotten"));
  const ref = create(ConnectionRefSchema, { environment: "dev", integration: "keyed", id: "forgotten" });
  const { connections } = running().sidecar.broker;
  expect(await connections.credentialsOf(ref)).toBeDefined();
  await running().rest("DELETE", "/connections/forgotten?provider_config_key=keyed");
  expect(await connections.credentialsOf(ref)).toBeUndefined();
});

it("R23 keeps nothing of a deleted connection for a new one with its id", async () => {
  const first = await post(keyedConnection("again", { metadata: { old: true }, tags: { old: "yes" } }));
  await running().rest("DELETE", "/connections/again?provider_config_key=keyed");
  const second = await post(keyedConnection("again"));
  expect(second.body).toMatchObject({ metadata: {}, tags: {} });
  expect(second.body.id).not.toBe(first.body.id);
  expect((await running().rest("GET", "/connections?tags[old]=yes")).body.connections).toEqual([]);
});

it("keeps the fields that a second import omits, and replaces the others", async () => {
  const whole = {
    metadata: { a: 1, b: { c: [] } },
    connection_config: { region: "eu" },
    tags: { Team: "x" },
    end_user: { id: "u-1", email: "u@example.com" },
    webhook_url_override: "https://app.example.com/hook",
  };
  const first = await post(keyedConnection("kept", whole));
  const second = await post(keyedConnection("kept", { credentials: { type: "API_KEY", apiKey: "another" } }));
  const { credentials, updated_at: _u, ...kept } = second.body;
  const { credentials: _c, updated_at: _v, ...before } = first.body;
  expect(kept).toEqual(before);
  expect(credentials.apiKey).toBe("another");
  expect((await get("kept")).body.credentials.apiKey).toBe("another");

  const third = await post(keyedConnection("kept", { metadata: { z: 1 }, tags: {}, connection_config: {} }));
  expect(third.body).toMatchObject({ metadata: { z: 1 }, connection_config: {} });
  expect(third.body.tags).toEqual({ end_user_id: "u-1", end_user_email: "u@example.com" });
});

it("mirrors an end user to tags, and only the latest one", async () => {
  const { rest } = running();
  const first = { id: "first", email: "one@example.com", display_name: "One", organization: { id: "o-1" } };
  const { body } = await post(keyedConnection("mirrored", { end_user: first, tags: { own: "1" } }));
  expect(body.tags).toEqual({
    end_user_id: "first",
    end_user_email: "one@example.com",
    end_user_display_name: "One",
    organization_id: "o-1",
    own: "1",
  });
  expect(body.end_user).toEqual({
    id: "first",
    email: "one@example.com",
    display_name: "One",
    tags: {},
    organization: { id: "o-1", display_name: null },
  });

  const again = await post(keyedConnection("mirrored", { end_user: { id: "second" } }));
  expect(again.body.tags).toEqual({ end_user_id: "second", own: "1" });
  const of = async (id: string) => (await rest("GET", `/connections?endUserId=${id}`)).body.connections.length;
  expect([await of("first"), await of("second")]).toEqual([0, 1]);

  expect((await patch("mirrored", { end_user: { id: "third" } })).body).toEqual({ success: true });
  expect((await get("mirrored")).body.tags).toEqual({ end_user_id: "third", own: "1" });
  await patch("mirrored", { tags: { other: "2" } });
  expect((await get("mirrored")).body.tags).toEqual({ end_user_id: "third", other: "2" });
});

it("counts the mirror of an end user among the ten tags", async () => {
  const tags = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`t${i}`, "x"]));
  const answer = await post(keyedConnection("crowded", { tags, end_user: { id: "u" } }));
  expect(refusalOf(answer)).toEqual(refused("tags"));
  expect((await post(keyedConnection("crowded", { tags }))).status).toBe(201);
  expect(refusalOf(await post(keyedConnection("crowded", { end_user: { id: "u" } })))).toEqual(refused("tags"));
  expect(refusalOf(await patch("crowded", { end_user: { id: "u" } }))).toEqual(refused("tags"));
});

it("changes only the fields of a PATCH", async () => {
  await post(keyedConnection("patched", { metadata: { m: 1 }, tags: { a: "1" } }));
  const before = (await get("patched")).body;
  const webhook_url_override = "https://app.example.com/x";
  expect((await patch("patched", { webhook_url_override })).status).toBe(200);
  const after = { ...before, webhook_url_override, updated_at: expect.any(String) };
  expect((await get("patched")).body).toEqual(after);
  await patch("patched", { webhook_url_override: "" });
  expect((await get("patched")).body.webhook_url_override).toBeNull();
  expect((await patch("unheard-of", { tags: {} })).status).toBe(404);
  expect((await patch("unheard-of", {})).status).toBe(404);
  expect((await running().rest("PATCH", "/connections/patched", { body: {} })).body.error.code).toBe(
    "invalid_query_params",
  );
});

it("changes nothing for an empty PATCH, not even the time of the last change", async () => {
  const { client } = running();
  await post(keyedConnection("untouched"));
  const before = (await get("untouched")).body;
  expect((await patch("untouched", {})).body).toEqual({ success: true });
  expect((await get("untouched")).body.updated_at).toBe(before.updated_at);
  const { events } = await client(LogService).listAuditEvents({ environment: "dev", target: "keyed/untouched" });
  expect(events.map(({ action }) => action)).toEqual(["connection.import"]);
});

it("asks the provider once to describe a connection", async () => {
  const { rest } = running();
  const body = (more: object) => ({
    provider_config_key: "basic",
    connection_id: "configured",
    credentials: { type: "BASIC", username: "u", password: "" },
    ...more,
  });
  const missing = await rest("POST", "/connections", { body: body({}) });
  expect(refusalOf(missing)).toEqual(refused("connection_config.host"));
  const config = { connection_config: { host: "api.example.com" } };
  expect((await rest("POST", "/connections", { body: body(config) })).status).toBe(201);
  const again = await rest("POST", "/connections", { body: body({}) });
  expect({ status: again.status, config: again.body.connection_config }).toEqual({
    status: 201,
    config: { host: "api.example.com" },
  });
});

it("I08 takes no address outside the provider's own domain", async () => {
  await setUp(running(), {
    name: "crm",
    auth: { case: "apiKey", value: { header: "x-key" } },
    connectionFields: [{ name: "instance_url", suffixes: ["crm.test"], required: true }],
  });
  const importTo = (instance_url: unknown) =>
    post({
      provider_config_key: "crm",
      connection_id: "c",
      credentials: { type: "API_KEY", apiKey: "k" },
      connection_config: { instance_url },
    });
  for (const url of [
    "https://evil.test",
    "https://crm.test.evil.test",
    "https://evilcrm.test",
    "https://a.crm.test@evil.test",
    "https://evil.test/crm.test",
    "https://evil.test?crm.test",
    "https://evil.test#.crm.test",
    "https://evil.test\\.crm.test",
    "https://evil.test%2f.crm.test",
    "https://evil.test:443@a.crm.test",
    "http://a.crm.test",
    "//a.crm.test",
    "https://a.crm.test/path",
    "https://a.crm.test\n",
    " https://a.crm.test",
    "https://a。crm.test",
    "javascript:crm.test",
    "",
    7,
    null,
    ["a.crm.test"],
  ]) {
    expect({ url, ...refusalOf(await importTo(url)) }).toEqual({ url, ...refused("connection_config.instance_url") });
  }
  for (const url of [
    "https://a.crm.test",
    "https://crm.test",
    "a.b.crm.test",
    "HTTPS://A.CRM.TEST",
    "https://a.crm.test:8443/",
  ]) {
    expect({ url, status: (await importTo(url)).status }).toEqual({ url, status: 201 });
  }
});
