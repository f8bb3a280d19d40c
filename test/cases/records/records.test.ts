import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { Nango } from "@nangohq/node";
import { describe, expect, it } from "vitest";
import type { RecordScope } from "../../../src/broker/records/sync-records.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionRefSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { keyWith } from "../../support/sidecar/door.ts";
import { createIntegrations, keyedConnection, secretKey, startTestSidecar } from "../../support/sidecar/harness.ts";

const headers = { "connection-id": "ada", "provider-config-key": "keyed" };
const at = { connectionId: "ada", providerConfigKey: "keyed", model: "Contact" };
const of: RecordScope = {
  connection: create(ConnectionRefSchema, { environment: "dev", integration: "keyed", id: "ada" }),
  model: "Contact",
  variant: "",
};
const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

async function start() {
  const running = await startTestSidecar();
  await createIntegrations(running);
  await running.rest("POST", "/connections", { body: keyedConnection("ada") });
  const { records } = running.sidecar.broker;
  return { ...running, running, records, nango: new Nango({ host: running.data, secretKey }) };
}

const people = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `p${i}`, name: `Person ${i}` }));

describe("the published SDK", () => {
  it("lists the saved records with their metadata", async () => {
    const { records, nango } = await start();
    await records.save(of, [{ id: 7, name: "Ada", deep: { list: [1, null, "é"] } }]);
    const { records: found, next_cursor } = await nango.listRecords(at);
    expect(next_cursor).toBeNull();
    expect(found).toEqual([
      {
        id: 7,
        name: "Ada",
        deep: { list: [1, null, "é"] },
        _nango_metadata: {
          first_seen_at: timestamp,
          last_modified_at: timestamp,
          last_action: "ADDED",
          deleted_at: null,
          pruned_at: null,
          cursor: expect.stringMatching(/./),
        },
      },
    ]);
    expect(await nango.listRecords({ ...at, model: "Company" })).toEqual({ records: [], next_cursor: null });
    expect(await nango.listRecords({ ...at, variant: "eu" })).toEqual({ records: [], next_cursor: null });
  });

  it("follows cursors, from page to page and from one day to the next", async () => {
    const { records, nango } = await start();
    await records.save(of, people(250));
    const seen: string[] = [];
    let cursor = "";
    const readOn = async () => {
      for (let next: string | null = cursor; next !== null; ) {
        const page: Awaited<ReturnType<typeof nango.listRecords>> = await nango.listRecords({ ...at, cursor: next });
        seen.push(...page.records.map(({ id, _nango_metadata: { last_action } }) => `${id} ${last_action}`));
        cursor = page.records.at(-1)?._nango_metadata.cursor ?? cursor;
        next = page.next_cursor;
      }
      return seen.splice(0);
    };
    expect(await readOn()).toEqual(people(250).map(({ id }) => `${id} ADDED`));
    expect(await readOn()).toEqual([]);
    await records.save(of, [{ id: "p3", name: "Ada" }]);
    await records.delete(of, ["p4"]);
    await records.save(of, [{ id: "p3", name: "Ada Lovelace" }]);
    expect(await readOn()).toEqual(["p4 DELETED", "p3 UPDATED"]);
  });

  it("filters by action, by time and by id", async () => {
    const { records, nango } = await start();
    await records.save(of, [...people(3), { id: "a,b" }]);
    const idsOf = async (filter: object) => (await nango.listRecords({ ...at, ...filter })).records.map(({ id }) => id);
    const [last] = (await nango.listRecords({ ...at, ids: ["p2"] })).records;
    const modifiedAfter = last?._nango_metadata.last_modified_at ?? "";
    await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(modifiedAfter));
    await records.save(of, [{ id: "p0", name: "Ada" }]);
    await records.delete(of, ["p1"]);
    expect(await idsOf({ filter: "added" })).toEqual(["p2", "a,b"]);
    expect(await idsOf({ filter: "UPDATED,DELETED" })).toEqual(["p0", "p1"]);
    expect(await idsOf({ modifiedAfter })).toEqual(["p0", "p1"]);
    expect(await idsOf({ delta: modifiedAfter })).toEqual(["p0", "p1"]);
    expect(await idsOf({ ids: ["a,b", "p0", "nobody"] })).toEqual(["a,b", "p0"]);
    expect(await idsOf({ limit: 2 })).toEqual(["p2", "a,b"]);
    const [deleted] = (await nango.listRecords({ ...at, filter: "deleted" })).records;
    expect(deleted).toMatchObject({ id: "p1", name: "Person 1", _nango_metadata: { deleted_at: timestamp } });
  });

  it("prunes records up to a cursor", async () => {
    const { records, nango } = await start();
    await records.save(of, people(5));
    const { next_cursor: untilCursor } = await nango.listRecords({ ...at, limit: 3 });
    if (untilCursor === null) throw new Error("there are more than three");
    expect(await nango.pruneRecords({ ...at, untilCursor, limit: 2 })).toEqual({ count: 2, has_more: true });
    expect(await nango.pruneRecords({ ...at, untilCursor })).toEqual({ count: 1, has_more: false });
    const { records: found } = await nango.listRecords(at);
    expect(found.map(({ _nango_metadata: { pruned_at }, ...data }) => [data, pruned_at !== null])).toEqual([
      [{ id: "p0" }, true],
      [{ id: "p1" }, true],
      [{ id: "p2" }, true],
      [{ id: "p3", name: "Person 3" }, false],
      [{ id: "p4", name: "Person 4" }, false],
    ]);
    expect(await records.save(of, [{ id: "p0", name: "Person 0" }])).toMatchObject({ unchanged: 1 });
  });
});

it.each([
  ["no model", "/records", headers, "invalid_query_params"],
  ["a limit of nothing", "/records?model=Contact&limit=0", headers, "invalid_query_params"],
  ["a limit of too many", "/records?model=Contact&limit=10001", headers, "invalid_query_params"],
  ["an action that is none", "/records?model=Contact&filter=added,moved", headers, "invalid_query_params"],
  ["a time that is none", "/records?model=Contact&modified_after=yesterday", headers, "invalid_query_params"],
  ["a cursor that is none", "/records?model=Contact&cursor=abc", headers, "invalid_query_params"],
  ["a model with NUL", "/records?model=a%00b", headers, "invalid_query_params"],
  ["a variant with NUL", "/records?model=a&variant=%00", headers, "invalid_body"],
  ["no connection", "/records?model=Contact", { "provider-config-key": "keyed" }, "invalid_headers"],
  ["no integration", "/records?model=Contact", { "connection-id": "ada" }, "invalid_headers"],
  ["nobody", "/records?model=Contact", { ...headers, "connection-id": "nobody" }, "unknown_connection"],
  [
    "another integration",
    "/records?model=Contact",
    { ...headers, "provider-config-key": "x" },
    "unknown_provider_config",
  ],
])("refuses a list of %s", async (_what, path, sent, code) => {
  const { rest } = await start();
  const { status, body } = await rest("GET", path, { headers: sent });
  expect([body.error?.code, status]).toEqual([code, code.startsWith("unknown") ? 404 : 400]);
});

it("refuses to prune without exact parameters, or with a read-only key", async () => {
  const { rest, running, records } = await start();
  await records.save(of, people(2));
  const reader = await keyWith(running, Scope.CONNECTIONS_READ);
  const list = await rest("GET", "/records?model=Contact", { headers, key: reader });
  const until_cursor = list.body.records[1]._nango_metadata.cursor;
  const prune = (body: object, key = secretKey) => rest("PATCH", "/records/prune", { headers, body, key });
  expect((await prune({ model: "Contact", until_cursor }, reader)).status).toBe(403);
  for (const wrong of [{ until_cursor }, { model: "Contact" }, { model: "Contact", until_cursor, limit: 0 }]) {
    const { status, body } = await prune(wrong);
    expect([status, body.error.code]).toEqual([400, "invalid_body"]);
  }
  expect((await prune({ model: "Company", until_cursor })).status).toBe(400);
  expect((await rest("GET", "/records?model=Contact", { headers })).body.records[0]).toMatchObject({
    name: "Person 0",
  });
  const writer = await keyWith(running, Scope.CONNECTIONS_WRITE);
  expect((await rest("GET", "/records?model=Contact", { headers, key: writer })).status).toBe(403);
  expect((await prune({ model: "Contact", until_cursor }, writer)).body).toEqual({ count: 2, has_more: false });
});

it("lists and prunes over the control plane as well", async () => {
  const { client, records } = await start();
  await records.save(of, people(3));
  await records.delete(of, ["p0"]);
  const rpc = client(SyncService);
  const connection = of.connection;
  const first = await rpc.listRecords({ connection, model: "Contact", pageSize: 2 });
  expect(first.records.map(({ id, data, lastAction }) => [id, data, lastAction])).toEqual([
    ["p1", { id: "p1", name: "Person 1" }, "ADDED"],
    ["p2", { id: "p2", name: "Person 2" }, "ADDED"],
  ]);
  const rest = await rpc.listRecords({ connection, model: "Contact", pageToken: first.nextPageToken });
  expect(rest.records.map(({ id, deletedAt }) => [id, deletedAt !== undefined])).toEqual([["p0", true]]);
  expect(rest.nextPageToken).toBe("");
  const untilCursor = first.records[0]?.cursor ?? "";
  expect(await rpc.pruneRecords({ connection, model: "Contact", untilCursor })).toMatchObject({ count: 1n });
  const [pruned] = (await rpc.listRecords({ connection, model: "Contact", ids: ["p1"] })).records;
  expect([pruned?.data, pruned?.prunedAt !== undefined]).toEqual([{}, true]);
  const wrong = rpc.listRecords({ connection, model: "Contact", actions: ["MOVED"] });
  await expect(wrong).rejects.toMatchObject({ code: Code.InvalidArgument });
  const deep = JSON.parse(`${"[".repeat(40)}${"]".repeat(40)}`);
  await records.save(of, [{ id: "deep", deep }]);
  const error = await rpc.listRecords({ connection, model: "Contact", ids: ["deep"] }).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(ConnectError);
  expect(error.code).toBe(Code.ResourceExhausted);
});

it("X06 shows nothing of a deleted connection to a new one with its id", async () => {
  const { rest, records } = await start();
  await records.save(of, people(3));
  expect((await rest("DELETE", "/connections/ada?provider_config_key=keyed")).status).toBe(200);
  expect((await rest("GET", "/records?model=Contact", { headers })).status).toBe(404);
  await rest("POST", "/connections", { body: keyedConnection("ada") });
  expect((await rest("GET", "/records?model=Contact", { headers })).body).toEqual({ records: [], next_cursor: null });
});

it("leaves nothing of a record in plain text, on disk or in the log", async () => {
  const { rest, records, folder, logged, stop, sidecar } = await start();
  const canaries = ["canary-of-the-id@example.com", "canary-of-the-data", "canary-of-a-key"];
  const [id = "", data, key = ""] = canaries;
  const visible = { ...of, model: "VisibleModelName" };
  await records.save(visible, [{ id, data, [key]: 1 }]);
  await records.update(visible, [{ id, more: data }]);
  await records.delete(visible, [id]);
  await records.save(visible, [{ id, data }]);
  await rest("GET", `/records?model=VisibleModelName&ids=${encodeURIComponent(id)}`, { headers });
  await sidecar.broker.keepHouse();
  await stop();
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const text = (await Promise.all(files.map((path) => readFile(path, "latin1")))).join("\n");
  // Proves that the search finds text that is stored in plain.
  expect(text).toContain("VisibleModelName");
  const hidden = canaries.flatMap((one) => [one, Buffer.from(one).toString("base64").slice(0, -4)]);
  expect(hidden.filter((one) => text.includes(one) || logged.join("\n").includes(one))).toEqual([]);
});
