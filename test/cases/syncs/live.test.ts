import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { Run_State, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";
import { provider } from "../channels/channels.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { endOf, foreignClient, type Plain } from "../control-plane/foreign.ts";
import { startScripted } from "./scripting.ts";

const token = "sk9f8e7d6c5b4a3f2e1d0c";
const script = `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "Saves things.",
  frequency: "every hour",
  autoStart: false,
  models: { Thing: z.object({ id: z.number() }) },
  exec: async (nango) => {
    await nango.log("first ${token}");
    await nango.batchSave([{ id: 1 }, { id: 2 }], "Thing");
    while ((await nango.getMetadata()).go !== true) await new Promise((done) => setTimeout(done, 20));
    await nango.log("second");
    for (let i = 0; i < 500; i += 1) await nango.log("many " + i);
  },
});`;

/** The events of a stream as they come, through a client without our own code. */
function heardBy(control: string, method: string, request: Plain, key?: string) {
  const stream = foreignClient(control).serverStream(method, request, key === undefined ? {} : { key });
  const events: Plain[] = [];
  stream.on("data", (event: Plain) => events.push(event));
  const ended = endOf(stream);
  const of = (kind: string) => events.filter((one) => one["event"] === kind).map((one) => one[kind]);
  return { events, of, ended, cancel: () => stream.cancel() };
}

const linesOf = (events: readonly Plain[]): string[] =>
  events
    .flatMap((one) => one["lines"]?.lines ?? [])
    .map(({ message, fields }) => fields?.fields?.message?.stringValue ?? message);

it("shows a run while it runs: its lines without secrets, its counts, and its end", async () => {
  const started = await startScripted({ "syncs/things.ts": script });
  const { sidecar } = started;
  await started.connect("ada");
  const syncs = sidecar.client(SyncService);
  const all = heardBy(sidecar.control, "SyncService/WatchRuns", { environment: "dev", integration: provider });
  const others = heardBy(sidecar.control, "SyncService/WatchRuns", { environment: "dev", script: "others" });
  await expect
    .poll(() => [...all.of("marker"), ...others.of("marker")].map(({ kind }) => kind))
    .toEqual(["KIND_RESUMED", "KIND_RESUMED"]);
  const { runIds } = await syncs.triggerSync({ environment: "dev", integration: provider, names: ["things"] });
  const [id = ""] = runIds;

  const watched = heardBy(sidecar.control, "SyncService/WatchRun", { environment: "dev", id });
  await expect.poll(() => linesOf(watched.events)).toEqual(["a script runs", "first [redacted]"]);
  await expect.poll(() => watched.of("run").at(-1)?.counts).toEqual({ Thing: { added: "2" } });
  expect((await syncs.getRun({ environment: "dev", id })).run?.state).toBe(Run_State.RUNNING);
  await sidecar.rest("PATCH", "/connections/metadata", {
    body: { provider_config_key: provider, connection_id: "ada", metadata: { go: true } },
  });
  expect((await watched.ended).code).toBe(0);
  const lines = linesOf(watched.events);
  // The log keeps the beginning and the end of what the script wrote.
  expect(lines.slice(0, 4)).toEqual(["a script runs", "first [redacted]", "second", "many 0"]);
  expect(lines.slice(-2)).toEqual(["many 499", "records were changed"]);
  expect(watched.of("gap").length).toBeLessThanOrEqual(10);
  expect(watched.of("run").at(-1)).toMatchObject({ id, state: "STATE_SUCCEEDED" });
  expect(JSON.stringify(watched.events)).not.toContain(token);

  await expect
    .poll(() => all.of("run").map(({ state }) => state))
    .toEqual(["STATE_QUEUED", "STATE_RUNNING", "STATE_SUCCEEDED"]);
  expect(others.of("run")).toEqual([]);
  // A run that has ended is shown whole, and the stream ends.
  const late = heardBy(sidecar.control, "SyncService/WatchRun", { environment: "dev", id });
  expect((await late.ended).code).toBe(0);
  expect(linesOf(late.events)).toContain("many 499");
  expect((await heardBy(sidecar.control, "SyncService/WatchRun", { environment: "dev", id: "none" }).ended).code).toBe(
    5,
  );
  const { source, script: found } = await syncs.getScript({ integration: provider, name: "things" });
  expect([source, found?.models]).toEqual([script, ["Thing"]]);
  for (const one of [all, others]) one.cancel();
  await expect.poll(() => sidecar.metric("latchkey_watchers_open")).toBe(0);
});

it("follows and searches logs and the audit trail by text, level, kind and time", async () => {
  const started = await startScripted({
    "syncs/things.ts": script,
    "actions/fails.ts": `
      import { createAction } from "latchkey/scripts";
      export default createAction({ description: "", exec: async (nango) => {
        await nango.log("The Quick brown fox");
        throw new Error("not today");
      } });`,
  });
  const { sidecar } = started;
  const logs = sidecar.client(LogService);
  const { control } = sidecar;
  const failed = heardBy(control, "LogService/WatchLogs", { environment: "dev", text: "quick BROWN", level: "error" });
  const others = heardBy(control, "LogService/WatchLogs", { environment: "dev", operation: "script.sync" });
  const audit = heardBy(control, "LogService/WatchAuditEvents", { environment: "dev", text: "/ADA" });
  await expect.poll(() => [failed, others, audit].map(({ events }) => events.length)).toEqual([1, 1, 1]);
  await started.connect("ada");
  await sidecar.rest("POST", "/connections/metadata", {
    body: { provider_config_key: provider, connection_id: "ada", metadata: { go: true } },
  });
  await sidecar.client(SyncService).triggerSync({ environment: "dev", integration: provider, names: ["things"] });
  await started.run();
  await expect.poll(() => others.of("log").map(({ operation }) => operation)).toEqual(["script.sync"]);
  // The provider is asked about the account after the connection is stored.
  await expect.poll(() => audit.of("audit_event").map(({ action }) => action)).toContain("connection.describe");
  const sinceMs = started.clock.now() + 500;
  started.clock.pass(1_000);
  const run = sidecar.client(SyncService).runAction({ connection: started.ref("ada"), name: "fails" });
  await expect(run).rejects.toThrow("not today");
  await expect.poll(() => failed.of("log").map(({ operation }) => operation)).toEqual(["script.action"]);
  await expect.poll(() => audit.of("audit_event").map(({ targets }) => targets)).toContainEqual([`${provider}/ada`]);

  const operations = async (filter: object) =>
    (await logs.listLogs({ environment: "dev", ...filter })).logs.map(({ operation }) => operation);
  const since = { seconds: BigInt(Math.floor(sinceMs / 1_000)), nanos: (sinceMs % 1_000) * 1e6 };
  expect(await operations({})).toEqual(["script.action", "script.sync"]);
  expect(await operations({ text: "quick brown" })).toEqual(["script.action"]);
  expect(await operations({ text: "slow" })).toEqual([]);
  expect(await operations({ level: "error" })).toEqual(["script.action"]);
  expect(await operations({ level: "info" })).toEqual(["script.action", "script.sync"]);
  expect(await operations({ operation: "script" })).toEqual(["script.action", "script.sync"]);
  expect(await operations({ operation: "scr" })).toEqual([]);
  expect(await operations({ since })).toEqual(["script.action"]);
  expect(await operations({ until: since })).toEqual(["script.sync"]);
  for (const filter of [
    { integration: provider },
    { integration: provider, connectionId: "ada" },
    { operation: "script.sync" },
  ])
    expect(await operations({ ...filter, until: since })).toEqual(["script.sync"]);
  const [newest] = (await logs.listLogs({ environment: "dev" })).logs;
  expect(await operations({ logId: newest?.id })).toEqual(["script.action"]);
  expect(await operations({ logId: newest?.id, level: "error", operation: "auth" })).toEqual([]);
  expect(await operations({ logId: "none" })).toEqual([]);

  const actions = async (filter: object) =>
    (await logs.listAuditEvents({ environment: "dev", ...filter })).events.map(({ action }) => action);
  const everything = await actions({});
  expect(await actions({ text: "/Ada", action: "connection.import" })).toEqual(["connection.import"]);
  expect(await actions({ since })).toEqual([]);
  expect(await actions({ until: since })).toEqual(everything);
  expect((await heardBy(control, "LogService/WatchLogs", { environment: "none" }).ended).code).toBe(5);
  expect((await heardBy(control, "LogService/WatchLogs", { environment: "dev", connection_id: "a" }).ended).code).toBe(
    3,
  );
  // A key of the environment sees that environment's logs, and no audit trail.
  const refused = [
    heardBy(control, "LogService/WatchAuditEvents", { environment: "dev" }, secretKey),
    heardBy(control, "LogService/WatchLogs", { environment: "prod" }, secretKey),
    heardBy(control, "SyncService/WatchRuns", { environment: "prod" }, secretKey),
    heardBy(control, "SyncService/WatchRun", { environment: "prod", id: "any" }, secretKey),
  ];
  for (const one of refused) expect((await one.ended).code).toBe(7);
  for (const one of [failed, others, audit]) one.cancel();
  await expect.poll(() => sidecar.metric("latchkey_watchers_open")).toBe(0);
});

it("follows on the command line until interrupted: logs, the audit trail, runs, and one run to its end", async () => {
  const started = await startScripted({ "syncs/things.ts": script });
  const { control } = started.sidecar;
  const left = new AbortController();
  const follow = (...args: string[]) => {
    const env = { LATCHKEY_CONTROL: control, LATCHKEY_ADMIN_KEY: adminKey, LATCHKEY_ENVIRONMENT: "dev", NO_COLOR: "1" };
    const terminal = memoryTerminal({ env, signal: left.signal });
    return { ...terminal, ended: runCli(args, terminal) };
  };
  const views = [follow("logs", "-f"), follow("audit", "-f"), follow("runs", "watch", "--script", "things")];
  await expect.poll(() => started.sidecar.metric("latchkey_watchers_open")).toBe(3);
  await started.connect("ada");
  await started.sidecar.rest("POST", "/connections/metadata", {
    body: { provider_config_key: provider, connection_id: "ada", metadata: { go: true } },
  });
  const request = { environment: "dev", integration: provider, names: ["things"] };
  const { runIds } = await started.sidecar.client(SyncService).triggerSync(request);
  const one = follow("syncs", "run", runIds[0] ?? "", "--follow");
  expect(await one.ended).toBe(0);
  expect(one.out()).toMatch(/many 499.*succeeded.*Thing: 2 records added/s);
  const [logs, audit, runs] = views;
  await expect.poll(() => logs?.out()).toContain("script.sync of");
  await expect.poll(() => audit?.out()).toMatch(/connection\.import .*\/ada/);
  await expect.poll(() => runs?.out()).toMatch(/queued.*running.*succeeded/s);
  left.abort();
  expect(await Promise.all(views.map(({ ended }) => ended))).toEqual([0, 0, 0]);
});
