import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { adminKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { type Scripts, startScripted } from "../syncs/scripting.ts";
import { memoryTerminal } from "./memory-terminal.ts";

const sync = (body: string, more = "") => `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "The events of the primary calendar.",
  frequency: "every hour",
  autoStart: false,
  models: { Event: z.object({ id: z.string(), summary: z.string().optional() }) },
  ${more}
  exec: async (nango) => {
    ${body}
  },
});
`;

const scripts: Scripts = {
  "syncs/events.ts": sync(
    `const { data } = await nango.get({ endpoint: "/v3/calendars/primary/events", params: { maxResults: 2 } });
    await nango.log("read a page", { level: "info" });
    await nango.batchSave(data.items.map(({ id, summary }) => ({ id, summary })), "Event");`,
    `webhookSubscriptions: ["*"],
  onWebhook: async (nango, payload) => { await nango.batchSave([{ id: payload.id }], "Event"); },`,
  ),
  "syncs/failing.ts": sync(`throw new Error("the page makes no sense");`),
  "actions/double.ts": `
import { createAction } from "latchkey/scripts";
import * as z from "zod";
export default createAction({
  description: "Doubles a number.",
  input: z.object({ number: z.number() }),
  output: z.object({ doubled: z.number() }),
  exec: async (nango, { number }) => {
    if (number < 0) throw new Error("no negative numbers");
    return { doubled: number * 2 };
  },
});
`,
  "events/welcome.ts": `
import { createOnEvent } from "latchkey/scripts";
export default createOnEvent({
  event: "post-connection-creation",
  description: "Says hello.",
  exec: async (nango) => { await nango.updateMetadata({ welcomed: true }); },
});
`,
};

const ada = "sandbox-calendar/ada";

async function scripted(all: Scripts = scripts) {
  const started = await startScripted(all);
  await started.connect("ada");
  await started.run();
  async function run(argv: readonly string[], stdin = "") {
    const env = { LATCHKEY_KEY: adminKey, LATCHKEY_CONTROL: started.sidecar.control, LATCHKEY_ENVIRONMENT: "dev" };
    const terminal = memoryTerminal({ env, stdin });
    const code = await runCli(argv, terminal, []);
    return { code, out: terminal.out(), err: terminal.err() };
  }
  return { ...started, started, run };
}

it("lists scripts, good and broken, with the place of each mistake", async () => {
  const { run } = await scripted({ ...scripts, "syncs/broken.ts": sync("nango.log('never closed';") });
  const { code, out } = await run(["scripts", "list"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^INTEGRATION +KIND +NAME +STATE +FREQUENCY +MODELS +ENDPOINTS +DESCRIPTION\n/);
  expect(out).toMatch(
    /sandbox-calendar +sync +events +good +every hour +Event +- +The events of the primary calendar\./,
  );
  expect(out).toMatch(/sandbox-calendar +sync +broken +broken +-/);
  expect(out).toMatch(/\nsandbox-calendar\/syncs\/broken\.ts:11:\d+: Expected "\)" but found ";"\n$/);
  expect((await run(["scripts", "list", "other"])).err).toContain("no scripts");
  const lines = (await run(["scripts", "list", "--json"])).out.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).name).sort()).toEqual([
    "broken",
    "double",
    "events",
    "failing",
    "welcome",
  ]);
});

it("does a dry run of a script: prints its output and changes, and saves nothing", async () => {
  const { run, metadata } = await scripted();
  const tried = await run(["scripts", "run", ada, "events", "--dry-run"]);
  expect(tried.code).toBe(0);
  expect(tried.out).toMatch(/^run \S+ {2}sync events of sandbox-calendar\/ada {2}succeeded\n/);
  expect(tried.out).toMatch(/info +read a page\n/);
  expect(tried.out).toMatch(/records would be saved\n +model=Event {2}count=2\n/);
  expect((await run(["syncs", "records", ada, "Event"])).err).toBe("no records\n");

  const heard = await run(["scripts", "run", ada, "events", "--dry-run", "--webhook", "--input", '{"id":"7"}']);
  expect(heard.out).toContain("count=1");
  const doubled = await run(["scripts", "run", ada, "double", "--dry-run", "--input", "-"], '{"number":21}');
  expect(doubled.out).toContain('\n{\n  "doubled": 42\n}\n');
  expect((await run(["scripts", "run", ada, "welcome", "--dry-run"])).out).toContain("keys=welcomed");

  const before = await metadata("ada");
  const failed = await run(["scripts", "run", ada, "failing", "--dry-run"]);
  expect(failed.code).toBe(1);
  expect(failed.out).toContain("failed: script_error");
  expect(failed.out).toMatch(/\nthe page makes no sense\n {2}at sandbox-calendar\/syncs\/failing\.ts:11:\d+\n/);
  expect(await metadata("ada")).toEqual(before);
  expect(JSON.parse((await run(["scripts", "run", ada, "failing", "--dry-run", "--json"])).out)).toMatchObject({
    run: { state: "failed", problem: { code: "script_error" } },
  });
  expect((await run(["syncs", "runs", "--script", "failing"])).err).toBe("no runs\n");
});

it("shows the records that a trial would write, and where it began", async () => {
  const { run } = await scripted({
    "syncs/going.ts": sync(
      `const at = await nango.getCheckpoint();
    const page = at?.page ?? 0;
    await nango.batchSave([{ id: \`p\${page}-1\`, summary: "x" }, { id: \`p\${page}-2\`, summary: "y".repeat(9000) }], "Event");
    await nango.batchSave(Array.from({ length: 150 }, (_, i) => ({ id: "many-" + i })), "Event");
    await nango.batchDelete([{ id: "old" }], "Event");
    await nango.saveCheckpoint({ page: page + 1 });
    await nango.log("sees " + (await nango.getCheckpoint()).page, { level: "info" });`,
      "checkpoint: z.object({ page: z.number() }),",
    ),
    "syncs/none.ts": sync(`await nango.batchSave([{ id: "1" }], "Other");`),
  });
  const dry = ["scripts", "run", ada, "going", "--dry-run"];
  const first = await run(dry);
  expect(first.code).toBe(0);
  expect(first.out).toContain("\nbegan without a checkpoint\n");
  expect(first.out).toContain('\nwould save 152 records of Event:\n  {"id":"p0-1","summary":"x"}\n');
  expect(first.out).toMatch(/\n {2}\{"id":"p0-2","_too_large_to_show":90\d\d\}\n/);
  expect(first.out).toContain("\n  and 52 more\n");
  expect(first.out).toContain('\nwould delete 1 record of Event:\n  {"id":"old"}\n');
  expect(first.out).toContain('\nwould save the checkpoint {"page":1}\n');
  expect(first.out).toMatch(/info +sees 1\n/);
  expect((await run(["scripts", "run", ada, "going"])).code).toBe(0);
  const second = await run(dry);
  expect(second.out).toContain('\nbegan at {"page":1}\n');
  expect(second.out).toContain('{"id":"p1-1","summary":"x"}');
  const told = JSON.parse((await run([...dry, "--json"])).out);
  expect(told).toMatchObject({ checkpoint: { page: 1 }, saved_checkpoint: { page: 2 } });
  expect(told.record_changes).toMatchObject([
    { model: "Event", action: "save", count: 152 },
    { model: "Event", action: "delete", count: 1, records: [{ id: "old" }] },
  ]);
  expect(told.record_changes[0].records).toHaveLength(100);
  // The dry run saved nothing: the next one starts where the last real run ended.
  expect((await run(dry)).out).toContain('\nbegan at {"page":1}\n');
  const wrong = await run(["scripts", "run", ada, "none", "--dry-run"]);
  expect([wrong.code, wrong.out]).toEqual([1, expect.stringContaining('declares no model "Other"')]);
});

it("runs a script for real, whatever its kind", async () => {
  const { run } = await scripted();
  const ran = await run(["scripts", "run", ada, "events"]);
  expect(ran).toMatchObject({ code: 0 });
  expect(ran.out).toMatch(/sync events of sandbox-calendar\/ada {2}succeeded\n.*\nEvent: 2 records added, 0 updated/);
  expect(await run(["scripts", "run", ada, "double", "--input", '{"number":4}'])).toMatchObject({
    code: 0,
    out: '{\n  "doubled": 8\n}\n',
  });
  expect((await run(["scripts", "run", ada, "welcome"])).code).toBe(2);
  expect((await run(["scripts", "run", ada, "events", "--webhook"])).err).toContain("--webhook requires --dry-run");
  expect((await run(["scripts", "run", ada, "events", "--input", "{}"])).code).toBe(2);
  const none = await run(["scripts", "run", ada, "none"]);
  expect(none.code).toBe(1);
  expect(none.err).toContain("use `scripts list sandbox-calendar` to list its scripts");
});

it("runs an action: its output to be piped on, or why and where it failed", async () => {
  const { run } = await scripted();
  expect((await run(["actions", "run", ada, "double", "--input", '{"number":2}'])).out).toBe('{\n  "doubled": 4\n}\n');
  const failed = await run(["actions", "run", ada, "double", "--input", '{"number":-1}']);
  expect(failed.code).toBe(1);
  expect(failed.err).toMatch(/at sandbox-calendar\/actions\/double\.ts:9:\d+\nUse `syncs run \S+` to see its log\.\n/);
  expect(failed.err).toMatch(/latchkey: no negative numbers \(script_failed\)\n/);
  expect(failed.err).toContain('action_script_failure: {"name":"Error","message":"no negative numbers"}\n');
  const asJson = await run(["actions", "run", ada, "double", "--input", '{"number":-1}', "--json"]);
  expect(JSON.parse(asJson.out)).toMatchObject({
    state: "failed",
    error: { code: "action_script_failure", payload: { message: "no negative numbers" } },
  });
  expect((await run(["actions", "run", ada, "double", "--input", '{"number":"x"}'])).err).toContain("(invalid_body)");
  expect((await run(["actions", "run", ada, "double", "--input", "{"])).code).toBe(2);
  expect((await run(["actions", "run", ada, "none"])).err).toContain("(unknown_action)");
});

it("starts an action without waiting, and shows its outcome later", async () => {
  const { run, started } = await scripted();
  const begun = await run(["actions", "run", ada, "double", "--async", "--json", "--input", '{"number":3}']);
  const { id, state } = JSON.parse(begun.out);
  expect(state).toBe("queued");
  await started.run();
  const told = async () => (await run(["syncs", "run", id])).out;
  await expect.poll(told).toMatch(/action double of sandbox-calendar\/ada {2}succeeded/);
  expect(await told()).toContain('"doubled": 6');
});

it("triggers syncs, waits for them, and prints each outcome", async () => {
  const { run, started } = await scripted();
  expect((await run(["syncs", "list", ada])).out).toMatch(
    /^CONNECTION +SYNC +STATE +FREQUENCY +NEXT RUN +LAST RUN +RECORDS\n\S+ +events +paused +every hour +- +- +Event 0\n/,
  );
  const all = await run(["syncs", "trigger", ada, "--wait"]);
  expect(all.code).toBe(3);
  expect(all.out).toMatch(/ events +sandbox-calendar\/ada +succeeded +\d+.* Event \+2 ~0 -0\n/);
  expect(all.out).toMatch(/ failing +sandbox-calendar\/ada +failed: script_error /);
  const failing = await run(["syncs", "trigger", "sandbox-calendar", "failing", "--wait"]);
  expect(failing.code).toBe(1);
  expect(failing.out).toMatch(/at sandbox-calendar\/syncs\/failing\.ts:11:\d+\n/);
  const cleared = ["syncs", "trigger", ada, "events", "--mode", "full-refresh-and-clear-cache", "--wait", "--json"];
  expect(JSON.parse((await run(cleared)).out)).toMatchObject({ counts: { Event: { added: 2 } } });

  const listed = await run(["syncs", "list", "sandbox-calendar"]);
  expect(listed.out).toMatch(/events +paused +every hour +- +\d{4}-\S+Z +Event 2\n/);
  expect(listed.out).toMatch(/failing +paused +every hour/);
  expect((await run(["syncs", "trigger", ada, "none"])).err).toContain("(unknown_sync)");
  expect((await run(["syncs", "trigger", ada, "--mode", "whole"])).code).toBe(2);

  const later = await run(["syncs", "trigger", ada, "events"]);
  const [, id = ""] = /^queued: (\S+)\n$/.exec(later.out) ?? [];
  expect((await run(["syncs", "runs", ada])).out).toContain(id);
  await started.run();
  // The run may have started already.
  const succeeded = ["syncs", "runs", ada, "--state", "queued", "--state", "succeeded"];
  await expect.poll(async () => (await run(succeeded)).out).toContain(`${id} `);
  expect((await run(["syncs", "run", id])).out).toMatch(/succeeded\nby trigger, due .*, began .*, took .*, version /);
});

it("lists runs, shows one with its output, and cancels one", async () => {
  const { run } = await scripted();
  await run(["syncs", "trigger", ada, "failing", "--wait"]);
  const { out } = await run(["syncs", "runs", "sandbox-calendar", "--script", "failing", "--state", "failed"]);
  expect(out).toMatch(/^RUN +WHEN +SCRIPT +CONNECTION +BY +STATE +TOOK +RECORDS\n/);
  const [, id = ""] =
    /\n(\S+) +\S+ +sync failing +sandbox-calendar\/ada +trigger +failed: script_error +\d/.exec(out) ?? [];
  const told = await run(["syncs", "run", id]);
  expect(told.out).toMatch(/\nthe page makes no sense\n {2}at sandbox-calendar\/syncs\/failing\.ts:11:/);
  expect(told.out).toMatch(/info +a script runs\n/);
  const { run: shown, lines } = JSON.parse((await run(["syncs", "run", id, "--json"])).out);
  expect([shown.id, lines.at(-1).fields.code]).toEqual([id, "script_error"]);
  expect((await run(["syncs", "runs", "--state", "asleep"])).code).toBe(2);
  expect((await run(["syncs", "runs", "--limit", "1"])).err).toContain("Use --all");
  expect((await run(["syncs", "run", "none"])).code).toBe(1);
  expect((await run(["syncs", "cancel", id])).out).toBe(`run ${id} is failed\n`);
});

it("pauses and starts a sync, and gives it a frequency", async () => {
  const { run } = await scripted();
  const at = [ada, "events"];
  expect((await run(["syncs", "pause", ...at])).out).toBe(`events of ${ada} is paused, every hour\n`);
  expect((await run(["syncs", "start", ...at])).out).toMatch(/ is scheduled, every hour, next at \S+Z\n/);
  expect((await run(["syncs", "frequency", ...at, "every 5 minutes"])).out).toContain("every 5 minutes");
  expect((await run(["syncs", "show", ...at])).out).toMatch(/frequency: every 5 minutes\n/);
  expect((await run(["syncs", "frequency", ...at, "script"])).out).toContain("every hour");
  const often = await run(["syncs", "frequency", ...at, "every second"]);
  expect(often).toMatchObject({ code: 2 });
  expect(often.err).toContain("must be at least 30 seconds");
  expect(await run(["syncs", "pause", ...at, "--expected-revision", "1"])).toMatchObject({ code: 1 });
  await run(["syncs", "start", ada, "failing"]);
  await run(["syncs", "trigger", ada, "failing", "--wait"]);
  expect((await run(["syncs", "list", ada])).out).toMatch(/failing +failed: script_error +every hour +\S+Z/);
  expect((await run(["syncs", "show", ada, "events::bulk"])).err).toContain("has no sync events::bulk");
});

it("shows records: a page, from a cursor, or all of them a line each", async () => {
  const { run } = await scripted();
  await run(["scripts", "run", ada, "events"]);
  const page = await run(["syncs", "records", ada, "Event", "--limit", "1"]);
  expect(page.out).toMatch(/^ID +LAST +FIRST SEEN +CHANGED +DATA\n\S+ +added +\S+Z +\S+Z +\{"id":/);
  const [, cursor = ""] = /--cursor (\S+) to continue/.exec(page.err) ?? [];
  const rest = await run(["syncs", "records", ada, "Event", "--cursor", cursor, "--json"]);
  const all = (await run(["syncs", "records", ada, "Event", "--all"])).out.trim().split("\n");
  expect(all.map((line) => JSON.parse(line).last_action)).toEqual(["ADDED", "ADDED"]);
  expect(rest.out.trim()).toBe(all[1]);
  expect((await run(["syncs", "records", ada, "Event", "--action", "deleted"])).err).toBe("no records\n");
  expect((await run(["syncs", "records", ada, "Event", "--all", "--limit", "1"])).code).toBe(2);
});

it("runs the hooks of imported connections on request", async () => {
  const { run, started } = await scripted();
  const line = (id: string) =>
    JSON.stringify({
      provider_config_key: "sandbox-calendar",
      connection_id: id,
      credentials: { type: "OAUTH2", access_token: `token-of-${id}` },
    });
  expect((await run(["connections", "import", "-", "--quiet"], line("bob"))).code).toBe(0);
  expect((await run(["connections", "import", "-", "--quiet", "--run-hooks"], line("eve"))).code).toBe(0);
  await started.run();
  const { out } = await run(["syncs", "runs", "--script", "welcome", "--json"]);
  const whose = out
    .trim()
    .split("\n")
    .map((one) => JSON.parse(one).connection.id);
  expect(whose.sort()).toEqual(["ada", "eve"]);
});

it("applies the given timeout to a call", async () => {
  const { run } = await scripted({
    ...scripts,
    "actions/slow.ts": `
import { createAction } from "latchkey/scripts";
export default createAction({
  description: "Takes its time.",
  exec: () => new Promise((resolve) => setTimeout(resolve, 3_000)),
});
`,
  });
  const late = await run(["scripts", "run", ada, "slow", "--dry-run", "--timeout", "500ms"]);
  expect(late).toMatchObject({ code: 1 });
  expect(late.err).toContain("use --timeout to wait longer");
  expect(await run(["scripts", "run", ada, "slow", "--dry-run"])).toMatchObject({ code: 0 });
});

it("lets scripts see credentials, and nothing more", async () => {
  const { run } = await scripted();
  const shown = (args: readonly string[]) => run(["integrations", ...args, "sandbox-calendar"]);
  expect((await shown(["update", "--credentials-in-scripts"])).code).toBe(0);
  expect((await shown(["get"])).out).toContain("credentials_in_scripts: true");
  expect((await shown(["update", "--no-credentials-in-scripts"])).code).toBe(0);
  expect((await shown(["get"])).out).not.toContain("credentials_in_scripts");
});

async function checked(files: Readonly<Record<string, string>>, argv: readonly string[] = []) {
  const folder = await temporaryFolder();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const terminal = memoryTerminal({ env: { LATCHKEY_SCRIPTS: folder } });
  const code = await runCli(["scripts", "check", ...argv], terminal, []);
  return { code, folder, out: terminal.out(), err: terminal.err() };
}

it("checks a folder without a latchkey, and prints each mistake with its place", async () => {
  const good = await checked({ "calendar/syncs/events.ts": scripts["syncs/events.ts"] ?? "" });
  expect(good).toMatchObject({ code: 0, out: "", err: "1 script, no mistakes\n" });
  const files = {
    "calendar/syncs/events.ts": scripts["syncs/events.ts"] ?? "",
    "calendar/syncs/often.ts": sync("").replace("every hour", "every second"),
    "calendar/syncs/files.ts": `import { readFileSync } from "node:fs";\n${sync("readFileSync('/etc/passwd');")}`,
    "calendar/syncs/routes.ts": sync("", `endpoints: [{ method: "GET", path: "/proxy/x" }],`),
    "calendar/actions/unclosed.ts": "export default createAction({",
    "crm/events/thrown.ts": `\nthrow new Error("at once");\nexport default 1;`,
  };
  const { code, out, err, folder } = await checked(files);
  expect(code).toBe(1);
  const lines = out.trim().split("\n").sort();
  expect(lines.map((line) => line.replace(`${folder}/`, "").replace(/:(\d+):\d+: .*/, ":$1"))).toEqual([
    "calendar/actions/unclosed.ts:1",
    "calendar/syncs/files.ts:1",
    "calendar/syncs/often.ts:6",
    "calendar/syncs/routes.ts:9",
    "crm/events/thrown.ts:2",
  ]);
  expect(out).toContain(": at once\n");
  expect(out).toContain("must be at least 30 seconds");
  expect(err).toBe("5 of 6 scripts are broken\n");
  const json = await checked({ "crm/events/thrown.ts": files["crm/events/thrown.ts"] }, ["--json"]);
  expect(JSON.parse(json.out)).toMatchObject({ file: expect.stringMatching(/\/crm\/events\/thrown\.ts$/), line: 2 });
});

it("names the folder when there is nothing to check", async () => {
  expect((await checked({})).err).toContain("no scripts in ");
  expect(await checked({}, ["/nowhere"])).toMatchObject({ code: 2, err: "latchkey: there is no folder /nowhere\n" });
  const terminal = memoryTerminal();
  expect(await runCli(["scripts", "check"], terminal, [])).toBe(2);
  expect(terminal.err()).toContain("there is no folder ./scripts: say which one to read, or set LATCHKEY_SCRIPTS");
});
