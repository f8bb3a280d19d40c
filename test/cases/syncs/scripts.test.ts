import { setTimeout as sleep } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Nango } from "@nangohq/node";
import { describe, expect, it } from "vitest";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type Run, Run_State, Script_Kind, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { codeOf, provider } from "../channels/channels.ts";
import { startScripted, writeScripts } from "./scripting.ts";

const saving = (more = "", body = "await nango.batchSave([{ id: 1, run: nango.activityLogId }], 'Thing');") => `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "Saves one thing.",
  frequency: "every 5 minutes",
  models: { Thing: z.object({ id: z.number() }) },
  ${more}
  exec: async (nango) => { ${body} },
});`;

const action = (body: string, more = "") => `
import { createAction } from "latchkey/scripts";
import * as z from "zod";
export default createAction({ description: "Does one thing.", ${more} exec: async (nango, input) => { ${body} } });`;

const hook = (event: string, body: string) => `
import { createOnEvent } from "latchkey/scripts";
export default createOnEvent({ event: "${event}", description: "A hook.", exec: async (nango) => { ${body} } });`;

type Started = Awaited<ReturnType<typeof startScripted>>;
const headers = { "provider-config-key": provider, "connection-id": "ada" };

async function runsOf({ sidecar }: Started, script = ""): Promise<readonly Run[]> {
  const { runs } = await sidecar.client(SyncService).listRuns({ environment: "dev", script });
  return runs;
}
const recordsOf = async ({ sidecar }: Started, model = "Thing") =>
  (await sidecar.rest("GET", `/records?model=${model}`, { headers })).body.records;
const trigger = ({ sidecar }: Started, body: object) =>
  sidecar.rest("POST", "/sync/trigger", { body: { provider_config_key: provider, connection_id: "ada", ...body } });

describe("a sync", () => {
  it("runs when its connection is created, at its frequency, and on request", async () => {
    const started = await startScripted({ "syncs/things.ts": saving() });
    await started.connect("ada");
    await started.run();
    expect((await runsOf(started)).map(({ cause, state }) => [cause, state])).toEqual([
      ["schedule", Run_State.SUCCEEDED],
    ]);
    started.clock.pass(4 * 60_000);
    await started.run();
    expect(await runsOf(started)).toHaveLength(1);
    started.clock.pass(60_000);
    await started.run();
    expect(await runsOf(started)).toHaveLength(2);
    expect((await trigger(started, { syncs: ["things"] })).body).toEqual({ success: true });
    await started.run();
    expect((await runsOf(started)).map(({ cause }) => cause)).toEqual(["trigger", "schedule", "schedule"]);
    expect(await recordsOf(started)).toMatchObject([{ id: 1, _nango_metadata: { last_action: "UPDATED" } }]);
  });

  it("X06 that fails at 90 % deletes nothing, and the next run starts again", async () => {
    const things = (body: string) => saving("trackDeletes: true, syncType: 'full',", body);
    const all = "await nango.batchSave([1,2,3,4,5,6,7,8,9,10].map((id) => ({ id })), 'Thing');";
    const started = await startScripted({ "syncs/things.ts": things(all) });
    await started.connect("ada");
    await started.run();
    expect(await recordsOf(started)).toHaveLength(10);
    noteVersion(started);

    writeScripts(started.scriptsFolder, {
      "syncs/things.ts": things("await nango.batchSave([{ id: 1 }], 'Thing'); throw new Error('at ninety percent');"),
    });
    await taken(started, "at ninety percent");
    await trigger(started, {});
    await started.run();
    const [failed] = await runsOf(started);
    expect(failed).toMatchObject({ state: Run_State.FAILED, problem: { code: "script_error" } });
    expect((await recordsOf(started)).map(isDeleted)).not.toContain(true);

    writeScripts(started.scriptsFolder, { "syncs/things.ts": things("await nango.batchSave([{ id: 1 }], 'Thing');") });
    await taken(started, "the last");
    await trigger(started, {});
    await started.run();
    expect((await recordsOf(started)).filter(isDeleted)).toHaveLength(9);
  });

  it("continues from its checkpoint, and drops it and its records on request", async () => {
    const body = `
      const { at = 0 } = (await nango.getCheckpoint()) ?? {};
      await nango.saveCheckpoint({ at: at + 1 });
      await nango.batchSave([{ id: at, since: nango.lastSyncDate?.toISOString() ?? null }], 'Thing');`;
    const started = await startScripted({ "syncs/things.ts": saving("syncType: 'incremental',", body) });
    await started.connect("ada");
    for (let i = 0; i < 3; i += 1) {
      await started.run();
      started.clock.pass(300_000);
    }
    expect(
      (await recordsOf(started)).map(({ id, since }: { id: number; since: string }) => [id, since === null]),
    ).toEqual([
      [0, true],
      [1, false],
      [2, false],
    ]);
    await trigger(started, { sync_mode: "full_refresh_and_clear_cache" });
    await started.run();
    expect(await recordsOf(started)).toMatchObject([{ id: 0, since: null }]);
  });

  it("X07 that is triggered a hundred times has one run under way and one that waits", async () => {
    // Waits until the test releases it.
    const slow = `
      while ((await nango.getMetadata()).go !== true) await new Promise((done) => setTimeout(done, 50));`;
    const started = await startScripted({ "syncs/things.ts": saving("autoStart: false,", slow) });
    await started.connect("ada");
    await trigger(started, {});
    await expect.poll(async () => (await runsOf(started))[0]?.state).toBe(Run_State.RUNNING);
    const answers = await Promise.all(Array.from({ length: 100 }, () => trigger(started, {})));
    expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(200));
    expect((await runsOf(started)).map(({ state }) => state).toSorted()).toEqual([Run_State.QUEUED, Run_State.RUNNING]);
    await started.sidecar.rest("PATCH", "/connections/metadata", {
      body: { provider_config_key: provider, connection_id: "ada", metadata: { go: true } },
    });
    await started.run();
    expect((await runsOf(started)).map(({ state }) => state)).toEqual([Run_State.SUCCEEDED, Run_State.SUCCEEDED]);
  });

  it("R17 is triggered by names that there are, in modes that there are", async () => {
    const started = await startScripted({
      "syncs/things.ts": saving("autoStart: false,"),
      "syncs/others.ts": saving("autoStart: false,"),
    });
    await started.connect("ada");
    const unknown = await trigger(started, { syncs: ["nothing"] });
    expect([unknown.status, unknown.body.error.code]).toEqual([404, "unknown_sync"]);
    expect((await trigger(started, { sync_mode: "INCREMENTAL" })).status).toBe(400);
    expect((await trigger(started, { syncs: Array.from({ length: 10_000 }, (_, i) => `sync-${i}`) })).status).toBe(400);
    expect((await trigger(started, { syncs: [""] })).status).toBe(400);
    expect((await trigger(started, { connection_id: "nobody" })).status).toBe(404);
    expect(await runsOf(started)).toEqual([]);
    expect((await trigger(started, { syncs: ["things", "things", { name: "things", variant: "base" }] })).status).toBe(
      200,
    );
    expect(await runsOf(started)).toHaveLength(1);
    await started.run();
    expect((await trigger(started, { syncs: [] })).status).toBe(200);
    await started.run();
    expect((await runsOf(started)).map(({ script }) => script).toSorted()).toEqual(["others", "things", "things"]);
  });

  it("X08 has a frequency of 30 seconds or more, and one run where the clock on the wall jumps", async () => {
    const started = await startScripted({ "syncs/things.ts": saving() });
    await started.connect("ada");
    await started.run();
    const set = (frequency: string | null) =>
      started.sidecar.rest("PUT", "/sync/update-connection-frequency", {
        body: { provider_config_key: provider, connection_id: "ada", sync_name: "things", frequency },
      });
    for (const wrong of ["0d", "every 1s", "banana", "29s"])
      expect([wrong, (await set(wrong)).status]).toEqual([wrong, 400]);
    expect((await set("every hour")).body).toEqual({ frequency: "every hour" });
    started.clock.pass(2 * 3_600_000);
    await started.run();
    expect(await runsOf(started)).toHaveLength(2);
    expect((await set(null)).body).toEqual({ frequency: "every 5 minutes" });
  });

  it("X09 whose process ended is interrupted, and started once more", async () => {
    const stuck = "await nango.batchSave([{ id: 1 }], 'Thing'); await new Promise(() => setTimeout(() => {}, 1e6));";
    const started = await startScripted({ "syncs/things.ts": saving("autoStart: false,", stuck) });
    await started.connect("ada");
    await trigger(started, {});
    await expect.poll(async () => (await runsOf(started))[0]?.state).toBe(Run_State.RUNNING);
    await started.restart();
    await expect
      .poll(async () => (await runsOf(started)).map(({ cause, state }) => [cause, state]))
      .toEqual([
        ["retry", Run_State.RUNNING],
        ["trigger", Run_State.INTERRUPTED],
      ]);
    await started.restart();
    await expect
      .poll(async () => (await runsOf(started)).map(({ state }) => state))
      .toEqual([Run_State.INTERRUPTED, Run_State.INTERRUPTED]);
  });

  it("can be cancelled, and then writes nothing", async () => {
    const slow = "for (let id = 0; ; id += 1) { await nango.batchSave([{ id }], 'Thing'); }";
    const started = await startScripted({ "syncs/things.ts": saving("autoStart: false,", slow) });
    await started.connect("ada");
    await trigger(started, {});
    await expect.poll(async () => (await recordsOf(started)).length).toBeGreaterThan(3);
    const [run] = await runsOf(started);
    await started.sidecar.client(SyncService).cancelRun({ environment: "dev", id: run?.id ?? "" });
    await expect.poll(async () => (await runsOf(started))[0]?.state).toBe(Run_State.CANCELLED);
    const before = await recordsOf(started);
    await sleep(100);
    expect(await recordsOf(started)).toEqual(before);
  });

  it("runs by its schedule after a run that waited was cancelled", async () => {
    const slow = "while ((await nango.getMetadata()).go !== true) await new Promise((done) => setTimeout(done, 50));";
    const started = await startScripted({ "syncs/things.ts": saving("", slow) });
    await started.connect("ada");
    await expect.poll(async () => (await runsOf(started))[0]?.state).toBe(Run_State.RUNNING);
    await trigger(started, {});
    const [queued] = await runsOf(started);
    await started.sidecar.client(SyncService).cancelRun({ environment: "dev", id: queued?.id ?? "" });
    await started.sidecar.rest("PATCH", "/connections/metadata", {
      body: { provider_config_key: provider, connection_id: "ada", metadata: { go: true } },
    });
    await started.run();
    started.clock.pass(300_000);
    await started.run();
    expect((await runsOf(started)).map(({ cause, state }) => [cause, state])).toEqual([
      ["schedule", Run_State.SUCCEEDED],
      ["trigger", Run_State.CANCELLED],
      ["schedule", Run_State.SUCCEEDED],
    ]);
  });

  it("notes no checkpoint that could not be read again", async () => {
    const body = `
      let deep = {};
      for (let i = 0; i < 60; i += 1) deep = { deep };
      await nango.saveCheckpoint(deep);`;
    const started = await startScripted({ "syncs/things.ts": saving("", body), "syncs/others.ts": saving() });
    await started.connect("ada");
    await started.run();
    const states = (await runsOf(started)).map(({ script, state, problem }) => [script, state, problem?.message]);
    expect(states.toSorted()).toEqual([
      ["others", Run_State.SUCCEEDED, undefined],
      ["things", Run_State.FAILED, expect.stringContaining("32 levels deep")],
    ]);
  });

  it("is deleted with its connection: a new connection sees nothing of its records", async () => {
    const started = await startScripted({ "syncs/things.ts": saving() });
    await started.connect("ada");
    await started.run();
    expect(await recordsOf(started)).toHaveLength(1);
    await started.remove("ada");
    await started.connect("ada");
    expect(await recordsOf(started)).toEqual([]);
    await started.run();
    expect(await recordsOf(started)).toHaveLength(1);
  });

  it("encrypts everything that it saves, also for readers of the store", async () => {
    const body = "await nango.batchSave(Array.from({ length: 1_000 }, (_, id) => ({ id })), 'Thing');";
    const started = await startScripted({ "syncs/things.ts": saving("autoStart: false,", body) });
    await started.connect("ada");
    const opened = async () => {
      const text = await (await fetch(`${started.sidecar.ops}/metrics`)).text();
      return Number(/^latchkey_seals_total\{operation="open"\} (\d+)/m.exec(text)?.[1] ?? 0);
    };
    const before = await opened();
    await trigger(started, {});
    await started.run();
    expect((await runsOf(started))[0]?.counts["Thing"]?.added).toBe(1_000n);
    expect((await opened()) - before).toBeLessThan(100);
  });

  it("is given to connections that were there before its file", async () => {
    const started = await startScripted({ "actions/none.ts": action("return null;") });
    await started.connect("ada");
    writeScripts(started.scriptsFolder, { "syncs/things.ts": saving() });
    await expect.poll(async () => (await recordsOf(started)).length).toBe(1);
  });
});

const isDeleted = ({ _nango_metadata: { deleted_at } }: { _nango_metadata: { deleted_at: string | null } }) =>
  deleted_at !== null;

/** Waits until the current file is loaded. `mark` is the test's name for it. */
async function taken(started: Started, mark: string): Promise<void> {
  const before = versions.get(started);
  await expect.poll(() => versionNow(started) !== before, { message: mark }).toBe(true);
  noteVersion(started);
}
const versionNow = (started: Started) => started.sidecar.sidecar.broker.scripts.all()[0]?.version;
const noteVersion = (started: Started) => versions.set(started, versionNow(started));
const versions = new WeakMap<Started, string | undefined>();

describe("a hook", () => {
  it("X04 that throws leaves the connection as it is, and is tried again", async () => {
    const started = await startScripted({
      "events/welcome.ts": hook("post-connection-creation", "throw new Error('not today');"),
    });
    await started.connect("ada");
    await started.run();
    expect((await started.sidecar.rest("GET", `/connections/ada?provider_config_key=${provider}`)).status).toBe(200);
    const [waiting, failed] = await runsOf(started);
    expect(failed).toMatchObject({ cause: "event", state: Run_State.FAILED, problem: { message: "not today" } });
    expect(waiting).toMatchObject({ cause: "retry", state: Run_State.QUEUED });
    const { log } = await started.sidecar.client(LogService).getLog({ environment: "dev", id: failed?.logId ?? "" });
    expect(log).toMatchObject({ operation: "script.event", failed: true });
    for (const ms of [13_000, 75_000, 750_000, 7_500_000]) {
      started.clock.pass(ms);
      await started.run();
    }
    expect((await runsOf(started)).map(({ state }) => state)).toEqual(Array(4).fill(Run_State.FAILED));
  });

  it("X05 that hangs before a deletion keeps no connection for longer than its deadline", async () => {
    const started = await startScripted({
      "events/goodbye.ts": hook("pre-connection-deletion", "await new Promise(() => setTimeout(() => {}, 1e6));"),
    });
    await started.connect("ada");
    const since = performance.now();
    expect((await started.remove("ada")).status).toBe(200);
    expect(performance.now() - since).toBeGreaterThan(9_000);
    expect((await runsOf(started))[0]).toMatchObject({ state: Run_State.FAILED, problem: { code: "deadline" } });
  });
});

describe("an action", () => {
  const scripts = {
    "actions/greet.ts": action(
      "return { greeting: `hello ${input.name}`, at: nango.connectionId };",
      "input: z.object({ name: z.string() }), endpoint: { method: 'POST', path: '/greetings' },",
    ),
    "actions/refuse.ts": action("throw new nango.ActionError({ message: 'no', why: 'because' });"),
  };

  it("runs on demand, by the SDK, by its own route, and over gRPC", async () => {
    const started = await startScripted(scripts);
    await started.connect("ada");
    const nango = new Nango({ host: started.sidecar.data, secretKey });
    expect(await nango.triggerAction(provider, "ada", "greet", { name: "Bob" })).toEqual({
      greeting: "hello Bob",
      at: "ada",
    });
    const { id, statusUrl } = await nango.triggerActionAsync(provider, "ada", "greet", { name: "Eve" });
    expect(statusUrl).toBe(`/action/${id}`);
    await started.run();
    expect(await nango.getAsyncActionResult({ id })).toEqual({ greeting: "hello Eve", at: "ada" });
    const own = await started.sidecar.rest("POST", "/greetings", { headers, body: { name: "Ann" } });
    expect([own.status, own.body]).toEqual([200, { greeting: "hello Ann", at: "ada" }]);
    const { run } = await started.sidecar.client(SyncService).runAction({
      connection: started.ref("ada"),
      name: "greet",
      input: fromJson(ValueSchema, { name: "Joe" }),
    });
    expect(run).toMatchObject({ kind: Script_Kind.ACTION, state: Run_State.SUCCEEDED });
  });

  it("may ask for another, however many do so at once, and that one for no more", async () => {
    const started = await startScripted({
      ...scripts,
      "actions/ask.ts": action("return nango.triggerAction(nango.providerConfigKey, 'ada', 'greet', { name: 'Bob' });"),
      "actions/deep.ts": action("return nango.triggerAction(nango.providerConfigKey, 'ada', 'ask', {});"),
    });
    await started.connect("ada");
    const run = (action_name: string) =>
      started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name } });
    const answers = await Promise.all(Array.from({ length: 20 }, () => run("ask")));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const deep = await run("deep");
    expect([deep.status, deep.body.error.message]).toEqual([
      424,
      expect.stringContaining("cannot trigger another action"),
    ]);
  });

  it("reports what is wrong: with its input, with itself, or that it does not exist", async () => {
    const started = await startScripted(scripts);
    await started.connect("ada");
    const run = (action_name: string, input?: unknown) =>
      started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name, input } });
    const wrong = await run("greet", { name: 7 });
    expect([wrong.status, wrong.body.error.code]).toEqual([400, "invalid_body"]);
    const refused = await run("refuse");
    expect([refused.status, refused.body.error.code]).toEqual([424, "action_script_runtime_error"]);
    const none = await run("nothing");
    expect([none.status, none.body.error.code]).toEqual([404, "unknown_action"]);
    expect(await codeOf(started.sidecar.client(SyncService).getRun({ environment: "dev", id: "none" }))).toBe(
      "not_found",
    );
  });
});

it("answers the SDK's calls for syncs", async () => {
  const started = await startScripted({ "syncs/things.ts": saving("autoStart: false,") });
  await started.connect("ada");
  const nango = new Nango({ host: started.sidecar.data, secretKey });
  const status = async () => (await nango.syncStatus(provider, ["things"], "ada")).syncs[0];
  expect(await status()).toMatchObject({ name: "things", status: "PAUSED", frequency: "every 5 minutes" });
  await nango.triggerSync(provider, ["things"], "ada", "full_refresh");
  await started.run();
  await nango.startSync(provider, ["things"], "ada");
  await started.run();
  expect(await status()).toMatchObject({
    status: "SUCCESS",
    type: "FULL",
    latestResult: { Thing: { added: 0, updated: 1, deleted: 0 } },
    recordCount: { Thing: 1 },
  });
  expect((await nango.syncStatus(provider, "*", "ada")).syncs).toHaveLength(1);
  await nango.pauseSync(provider, ["things"], "ada");
  expect(await status()).toMatchObject({ status: "PAUSED" });
  expect(await nango.updateSyncConnectionFrequency(provider, "things", "ada", "1h")).toEqual({ frequency: "1h" });
  expect(
    (await nango.listRecords({ providerConfigKey: provider, connectionId: "ada", model: "Thing" })).records,
  ).toHaveLength(1);
  const config = await nango.getScriptsConfig();
  expect(config).toMatchObject([{ providerConfigKey: provider, syncs: [{ name: "things", runs: "every 5 minutes" }] }]);
});
