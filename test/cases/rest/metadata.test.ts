import { expect, it } from "vitest";
import { maxMetadataDepth } from "../../../src/core/connection-rules.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const paths = ["/connection/metadata", "/connections/metadata"] as const;

interface Setting {
  readonly id: unknown;
  readonly metadata: unknown;
  readonly method?: "PATCH" | "POST";
  readonly path?: (typeof paths)[number];
}

const set = ({ id, metadata, method = "PATCH", path = "/connection/metadata" }: Setting) =>
  running().rest(method, path, { body: { connection_id: id, provider_config_key: "keyed", metadata } });
const make = (id: string, metadata: object = {}) =>
  running().rest("POST", "/connections", { body: keyedConnection(id, { metadata }) });
const metadataOf = async (id: string) =>
  (await running().rest("GET", `/connections/${id}?provider_config_key=keyed`)).body.metadata;
const refusalOf = ({ status, body }: Awaited<ReturnType<typeof set>>) => ({ status, code: body.error?.code });

/** An object within an object, so many deep. */
const nested = (depth: number): object => (depth === 1 ? {} : { a: nested(depth - 1) });
const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, i]));

it("R14 knows no connection that is not there", async () => {
  for (const path of paths) {
    for (const method of ["PATCH", "POST"] as const) {
      const answer = await set({ id: "nobody", metadata: { a: 1 }, method, path });
      expect(refusalOf(answer)).toEqual({ status: 404, code: "unknown_connection" });
    }
  }
  const elsewhere = { connection_id: "x", provider_config_key: "nowhere", metadata: {} };
  const answer = await running().rest("PATCH", "/connection/metadata", { body: elsewhere });
  expect(refusalOf(answer)).toEqual({ status: 404, code: "unknown_provider_config" });
});

it.each<readonly [string, unknown, number]>([
  ["null", null, 400],
  ["an array", [], 400],
  ["text", "x", 400],
  ["a number", 1, 400],
  ["nothing", undefined, 400],
  ["200 objects in each other", nested(200), 400],
  ["one object too many in each other", nested(maxMetadataDepth + 1), 400],
  ["300 KiB", { a: "x".repeat(300 * 1024) }, 400],
  ["a mebibyte", { a: "x".repeat(1024 * 1024) }, 413],
  ["10,000 keys", keys(10_000), 400],
  ["1,001 keys", keys(1_001), 400],
  ["half a character", { a: "\ud800" }, 400],
  ["half a character in a key", { "\udc00": 1 }, 400],
])("R14 takes no metadata that is %s", async (_name, metadata, status) => {
  await make("strict", { before: true });
  for (const method of ["PATCH", "POST"] as const) {
    expect((await set({ id: "strict", metadata, method })).status).toBe(status);
  }
  expect((await running().rest("POST", "/connections", { body: keyedConnection("strict", { metadata }) })).status).toBe(
    // A new connection may omit its metadata.
    metadata === undefined || metadata === null ? 201 : status,
  );
  expect(await metadataOf("strict")).toEqual({ before: true });
});

it("R14 refuses a number that JSON allows and no type can hold", async () => {
  await make("infinite");
  const body = '{"connection_id":"infinite","provider_config_key":"keyed","metadata":{"a":{"b":[1e999]}}}';
  const answer = await running().rest("PATCH", "/connection/metadata", { body });
  expect(refusalOf(answer)).toEqual({ status: 400, code: "invalid_body" });
  expect(answer.body.error.errors[0].path).toEqual(["metadata", "a", "b", "0"]);
});

it("R14 accepts metadata exactly at each limit", async () => {
  await make("full");
  const { a: _, ...deep } = { a: 0, ...nested(maxMetadataDepth) };
  for (const metadata of [deep, keys(1_000), { a: "x".repeat(255 * 1024) }]) {
    expect((await set({ id: "full", metadata, method: "POST" })).status).toBe(201);
    expect(await metadataOf("full")).toEqual(metadata);
  }
});

it("R14 checks the limits on the merged metadata, and not only on the patch", async () => {
  await make("growing", keys(999));
  expect((await set({ id: "growing", metadata: { another: 1 } })).status).toBe(200);
  expect(refusalOf(await set({ id: "growing", metadata: { oneTooMany: 1 } }))).toEqual({
    status: 400,
    code: "invalid_body",
  });
  expect(Object.keys(await metadataOf("growing"))).toHaveLength(1_000);
});

it.each([undefined, null, "", 7, {}, [], [""], ["a", 7], [[]], Array.from({ length: 1_001 }, (_, i) => `c${i}`)])(
  "R14 takes no connection_id that is %j",
  async (id) => {
    expect(refusalOf(await set({ id, metadata: {} }))).toEqual({ status: 400, code: "invalid_body" });
  },
);

it("R15 stores null as null", async () => {
  await make("nulled", { k: 1, other: 2 });
  const answer = await set({ id: "nulled", metadata: { k: null } });
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: { connection_id: "nulled", provider_config_key: "keyed", metadata: { k: null } },
  });
  expect(await metadataOf("nulled")).toEqual({ k: null, other: 2 });
});

it("R15 changes nothing for an empty patch, not even the time of the last change", async () => {
  await make("quiet", { a: 1 });
  const before = (await running().rest("GET", "/connections/quiet?provider_config_key=keyed")).body;
  expect((await set({ id: "quiet", metadata: {} })).status).toBe(200);
  expect((await running().rest("GET", "/connections/quiet?provider_config_key=keyed")).body).toEqual(before);
  const { events } = await running().client(LogService).listAuditEvents({ environment: "dev", target: "keyed/quiet" });
  expect(events.map(({ action }) => action)).toEqual(["connection.import"]);
});

it("R15 loses none of a hundred patches at once", async () => {
  await make("busy", { before: true });
  const names = Array.from({ length: 100 }, (_, i) => `key-${i}`);
  const answers = await Promise.all(
    names.map((name, i) => set({ id: "busy", metadata: { [name]: i }, path: paths[i % 2] ?? paths[0] })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await metadataOf("busy")).toEqual({ before: true, ...Object.fromEntries(names.map((name, i) => [name, i])) });
});

it("R15 loses nothing to concurrent patches", async () => {
  await make("mixed");
  const at = "/connections/mixed?provider_config_key=keyed";
  const work = Array.from({ length: 20 }, (_, i) => [
    set({ id: "mixed", metadata: { [`m${i}`]: i } }),
    running().rest("PATCH", at, { body: { tags: { round: String(i) } } }),
    running().rest("POST", "/connections", {
      body: keyedConnection("mixed", { credentials: { type: "API_KEY", apiKey: `key-${i}` } }),
    }),
    running().rest("PATCH", at, { body: { webhook_url_override: `https://app.example.com/${i}` } }),
  ]);
  const statuses = (await Promise.all(work.flat())).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200, 201]));
  const { body } = await running().rest("GET", at);
  expect(body.metadata).toEqual(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`m${i}`, i])));
  expect(body).toMatchObject({
    tags: { round: expect.stringMatching(/^\d+$/) },
    webhook_url_override: expect.stringMatching(/^https:\/\/app\.example\.com\/\d+$/),
    credentials: { apiKey: expect.stringMatching(/^key-\d+$/) },
  });
});

it("R15 merges at the top alone, and POST replaces the whole", async () => {
  await make("shallow", { a: { b: 1 }, c: 1 });
  await set({ id: "shallow", metadata: { a: { d: 2 } } });
  expect(await metadataOf("shallow")).toEqual({ a: { d: 2 }, c: 1 });
  const answer = await set({ id: "shallow", metadata: { z: 1 }, method: "POST" });
  expect(answer.status).toBe(201);
  expect(await metadataOf("shallow")).toEqual({ z: 1 });
  await set({ id: "shallow", metadata: {}, method: "POST" });
  expect(await metadataOf("shallow")).toEqual({});
});

it("R15 changes several connections together or none of them", async () => {
  await make("one");
  await make("two");
  const answer = await set({ id: ["one", "two", "one"], metadata: { both: true } });
  expect({ status: answer.status, ids: answer.body.connection_id }).toEqual({
    status: 200,
    ids: ["one", "two", "one"],
  });
  expect([await metadataOf("one"), await metadataOf("two")]).toEqual([{ both: true }, { both: true }]);
  expect((await set({ id: ["one", "nobody", "two"], metadata: { none: true } })).status).toBe(404);
  expect([await metadataOf("one"), await metadataOf("two")]).toEqual([{ both: true }, { both: true }]);
});

it("R15 keeps keys that are the names of prototypes, and takes them for no more than names", async () => {
  await make("proto");
  const body =
    '{"connection_id":"proto","provider_config_key":"keyed","metadata":' +
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":null,"":1}}';
  expect((await running().rest("PATCH", "/connection/metadata", { body })).status).toBe(200);
  const answer = await running().rest("GET", "/connections/proto?provider_config_key=keyed");
  const stored = new Map(Object.entries(answer.body.metadata));
  expect(stored.get("__proto__")).toEqual({ polluted: true });
  expect(stored.get("constructor")).toEqual({ prototype: { polluted: true } });
  expect(stored.get("toString")).toBeNull();
  expect(stored.get("")).toBe(1);
  expect({}).not.toHaveProperty("polluted");
  await make("proto-after");
  expect(await metadataOf("proto-after")).toEqual({});
});

it("R15 answers with what it read, at any depth", async () => {
  await make("echoed");
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const body = `{"connection_id":"echoed","provider_config_key":"keyed","metadata":{"a":1},"future":${deep}}`;
  const answer = await running().rest("PATCH", "/connection/metadata", { body });
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: { connection_id: "echoed", provider_config_key: "keyed", metadata: { a: 1 } },
  });
});

const uri = (i: number) => `https://calendar.example/v3/calendars/${i}/events?alt=json`;

it.each<readonly [string, unknown]>([
  ["text", uri(1)],
  ["numbers", [1]],
  ["an empty one", [""]],
  ["null", [null]],
  ["objects", [{}]],
  ["10,001 of them", Array.from({ length: 10_001 }, (_, i) => `u${i}`)],
  ["an object", { 0: uri(1) }],
  ["a number", 1],
])("R16 takes no watch list that is %s", async (_name, calendarWatchResourceUris) => {
  const before = { calendarWatchResourceUris: [uri(7)] };
  await make("watching", before);
  for (const method of ["PATCH", "POST"] as const) {
    const answer = await set({ id: "watching", metadata: { calendarWatchResourceUris }, method });
    expect(refusalOf(answer)).toEqual({ status: 400, code: "invalid_body" });
    expect(answer.body.error.errors[0].path.slice(0, 2)).toEqual(["metadata", "calendarWatchResourceUris"]);
  }
  expect(await metadataOf("watching")).toEqual(before);
});

it("R16 keeps a watch list of 10,000 byte for byte", async () => {
  await make("watching-much");
  const list = ["https://a.example/%40?x=%2F#é", ...Array.from({ length: 9_999 }, (_, i) => `u${i}`)];
  expect((await set({ id: "watching-much", metadata: { calendarWatchResourceUris: list } })).status).toBe(200);
  expect(await metadataOf("watching-much")).toEqual({ calendarWatchResourceUris: list });
  for (const name of ["calendarChannelId", "calendarResourceId"]) {
    expect((await set({ id: "watching-much", metadata: { [name]: 7 } })).status).toBe(400);
    expect((await set({ id: "watching-much", metadata: { [name]: "c" } })).status).toBe(200);
  }
});
