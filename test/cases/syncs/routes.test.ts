import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { provider } from "../channels/channels.ts";
import { startScripted } from "./scripting.ts";

const sync = (path: string, models: string, body: string, more = "") => `
  import { createSync } from "latchkey/scripts";
  import * as z from "zod";
  const one = z.object({ id: z.string() });
  export default createSync({ description: "", frequency: "1d", autoStart: false, ${more}
    endpoints: ${path}, models: ${models}, exec: async (nango: any) => { ${body} } });`;

const scripts = {
  "syncs/things.ts": sync(
    '[{ method: "GET", path: "/things" }, { method: "GET", path: "/others" }]',
    "{ Thing: one, Other: one }",
    "await nango.batchSave([{ id: 'a' }, { id: 'b' }, { id: 'c' }], 'Thing'); await nango.batchSave([{ id: 'x' }], 'Other');",
  ),
  "syncs/renewal.ts": sync('[{ method: "GET", path: "/calendar/watch-renewal" }]', "{}", "await nango.log('renewed');"),
  "syncs/both.ts": sync(
    '[{ method: "GET", path: "/both" }, { method: "POST", path: "/both" }]',
    "{ Both: one }",
    "await nango.batchSave([{ id: '1' }], 'Both');",
  ),
};
const headers = { "provider-config-key": provider, "connection-id": "ada" };

async function ready() {
  const started = await startScripted(scripts);
  await started.connect("ada");
  const ask = (method: string, path: string, more: object = {}) =>
    started.sidecar.rest(method, path, { headers, ...more });
  const runs = async () => (await started.sidecar.client(SyncService).listRuns({ environment: "dev" })).runs.length;
  return { started, ask, runs };
}

it("lists the records of a sync by its own route, without a run", async () => {
  const { ask, runs } = await ready();
  const none = await ask("GET", "/things");
  expect([none.status, none.body]).toEqual([200, { records: [], next_cursor: null }]);
  expect(await runs()).toBe(0);

  const ran = await ask("POST", "/things");
  expect([ran.status, ran.body]).toEqual([200, { success: true, run_id: expect.any(String) }]);
  expect(await runs()).toBe(1);
  const idsOf = ({ body }: { body: { records: { id: string }[] } }) => body.records.map(({ id }) => id);
  const first = await ask("GET", "/things?limit=2");
  expect(idsOf(first)).toEqual(["a", "b"]);
  expect(first.body.records[0]._nango_metadata).toMatchObject({ last_action: "ADDED" });
  const second = await ask("GET", `/things?limit=2&cursor=${encodeURIComponent(first.body.next_cursor)}`);
  expect([idsOf(second), second.body.next_cursor]).toEqual([["c"], null]);
  // Several routes each return their own model, in order; the query names another model.
  expect(idsOf(await ask("GET", "/others"))).toEqual(["x"]);
  expect(idsOf(await ask("GET", "/things?model=Other"))).toEqual(["x"]);
  expect(idsOf(await ask("GET", "/things?filter=deleted"))).toEqual([]);
  expect(idsOf(await ask("GET", "/things?modified_after=2020-01-01&ids=b"))).toEqual(["b"]);
  expect(await runs()).toBe(1);
});

it("runs a sync without models by its own route, and no other way of looking at it does", async () => {
  const { started, ask, runs } = await ready();
  const ran = await ask("GET", "/calendar/watch-renewal");
  expect([ran.status, ran.body]).toEqual([200, { success: true, run_id: expect.any(String) }]);
  const head = await fetch(`${started.sidecar.data}/calendar/watch-renewal`, {
    method: "HEAD",
    headers: { ...headers, authorization: `Bearer ${secretKey}` },
  });
  expect(head.status).toBe(405);
  expect(await runs()).toBe(1);
  expect((await ask("POST", "/both", { body: {} })).body).toMatchObject({ success: true });
  expect((await ask("GET", "/both")).body.records).toMatchObject([{ id: "1" }]);
  expect(await runs()).toBe(2);
});

it("refuses unknown fields by name instead of ignoring them", async () => {
  const { ask, runs } = await ready();
  for (const [method, path, field, body] of [
    ["GET", "/things?modifiedAfter=2020-01-01", "modifiedAfter"],
    ["GET", "/things?sync_mode=full_refresh", "sync_mode"],
    ["GET", "/things?model=None", "model"],
    ["GET", "/things?limit=none", "limit"],
    ["GET", "/things?modified_after=soon", "modified_after"],
    ["GET", "/calendar/watch-renewal?model=Thing", "model"],
    ["GET", "/calendar/watch-renewal?cursor=1&limit=2", "cursor"],
    ["POST", "/things?limit=2", "limit"],
    ["POST", "/things", "sync_mode", { sync_mode: "full_refresh" }],
  ] as const) {
    const answer = await ask(method, path, body === undefined ? {} : { body });
    expect([path, answer.status, answer.body.error?.errors?.[0]?.path]).toEqual([path, 400, [field]]);
  }
  expect(await runs()).toBe(0);
});

it("asks of each of the two the scope that its plain route asks", async () => {
  const { started, ask } = await ready();
  const keyWith = async (scope: Scope) => {
    const { secret } = await started.sidecar
      .client(EnvironmentService)
      .createKey({ environment: "dev", scopes: [scope] });
    return secret;
  };
  const [reading, syncing] = [await keyWith(Scope.CONNECTIONS_READ), await keyWith(Scope.SYNCS)];
  expect((await ask("GET", "/things", { key: reading })).status).toBe(200);
  expect((await ask("GET", "/things", { key: syncing })).status).toBe(403);
  expect((await ask("POST", "/things", { key: reading })).status).toBe(403);
  expect((await ask("POST", "/things", { key: syncing })).status).toBe(200);
  expect((await ask("GET", "/calendar/watch-renewal", { key: reading })).status).toBe(403);
});
