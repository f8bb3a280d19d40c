import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { devPage, shellWordOf } from "../../../src/dev/page.ts";
import { startProvider } from "../../support/peers/provider.ts";
import { compileCache } from "../../support/runner/compile-cache.ts";
import { programFile } from "../../support/runner/program.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch, type Running } from "../../support/sidecar/process.ts";
import { writeScripts } from "../syncs/scripting.ts";

interface DevOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly args?: readonly string[];
}

/** Runs `dev` as a newcomer does: nothing is set but the ports, which may be taken on this machine. */
async function devIn(cwd: string, { env = {}, args = ["--sandbox", ":0"] }: DevOptions = {}): Promise<Running> {
  const unset = { LATCHKEY_STORE: undefined, LATCHKEY_SEAL_KEYS: undefined };
  const keys = { LATCHKEY_SECRET_KEY: undefined, LATCHKEY_ADMIN_KEY: undefined };
  return launch(["dev", ...args], { folder: cwd, cwd, env: { ...unset, ...keys, ...env } });
}

async function readyDev(cwd: string, options?: DevOptions): Promise<Running> {
  const running = await devIn(cwd, options);
  await running.says("Stop with Ctrl-C.");
  return running;
}

async function stop({ child, exited }: Running): Promise<void> {
  child.kill("SIGINT");
  expect(await exited).toBe(0);
}

const sandboxOf = (running: Running) => /(http:\S+)\/_sandbox /.exec(running.stdout())?.[1] ?? "";

/** Calls the JSON routes and the proxy of the data listener with the key from the store's folder. */
async function callerOf(running: Running, cwd: string) {
  const key = (await readFile(join(cwd, ".latchkey/secret-key"), "utf8")).trim();
  return async (path: string, { headers = {}, ...init }: RequestInit = {}) => {
    const all = { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers };
    const response = await fetch(`${running.address("data")}${path}`, { headers: all, ...init });
    return { status: response.status, body: JSON.parse(await response.text()) };
  };
}

const through = (integration: string) => ({
  headers: { "provider-config-key": integration, "connection-id": "ada" },
});

/** All printed commands, in order. */
const pastedFrom = (text: string): string =>
  text
    .split("\n")
    .filter((line) => line.startsWith("  ") && !line.startsWith("  #"))
    .map((line) => line.replace(/^ {2}(?:latchkey|npm run -s latchkey --) /, `'${process.execPath}' '${programFile}' `))
    .join("\n");

/** Runs lines in a shell, expects no errors, and returns the output. */
async function pasted(lines: string, cwd: string): Promise<string> {
  const shell = spawn("sh", ["-e", "-c", lines], {
    cwd,
    env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: compileCache },
  });
  let said = "";
  let complaints = "";
  shell.stdout.on("data", (text) => {
    said += text;
  });
  shell.stderr.on("data", (text) => {
    complaints += text;
  });
  expect([(await once(shell, "close"))[0], complaints]).toEqual([0, ""]);
  return said;
}

const latchkey = `'${process.execPath}' '${programFile}'`;

it("prints a first call that works as pasted, and no key", async () => {
  const cwd = await temporaryFolder();
  const running = await readyDev(cwd);
  const page = running.stdout().slice(running.stdout().indexOf("\nLatchkey is ready"));
  expect(page.trim().split("\n").length).toBeLessThanOrEqual(23);
  expect(running.stdout()).not.toContain((await readFile(join(cwd, ".latchkey/secret-key"), "utf8")).trim());
  const said = await pasted(
    pastedFrom(/ {2}export KEY[\s\S]*?\n\n/.exec(page)?.[0] ?? "").replace("curl", "curl -s"),
    cwd,
  );
  expect(said).toContain('"name":"notes-1.txt"');
  await stop(running);
  expect(await readdir(join(cwd, ".latchkey"))).not.toContain("dev.json");
});

it("takes a tour whose steps all work, and prints the same commands to paste", async () => {
  const cwd = await temporaryFolder();
  const running = await readyDev(cwd);
  // Only the folder tells the command where latchkey is.
  const said = await pasted(`${latchkey} tour`, cwd);
  // Requested three times: at first, after the token expired, and while the provider failed.
  expect(said.split('"name":"notes-1.txt"')).toHaveLength(4);
  expect(said).toMatch(/"summary":"Meeting 1"[\s\S]*"messages":\[\{"id":"mail-12"/);
  expect(said).toMatch(/calendar\/ada +sandbox-calendar +active/);
  // The webhook matches her connection, and no destination is configured.
  expect(said).toMatch(/\{"status":"success"\}\nNOTIFICATION[^\n]*\n\S+ +\S+ +calendar +- +hers \d+ +1 +ada\n/);
  expect(said).toMatch(/msg_\S+ +\S+ +forward +calendar\/ada +no_destination +0/);
  // The forced refresh and the automatic one.
  expect(said).toContain('"refreshes":2,');
  expect(said).toMatch(/\{"revoked":1\}\n\{"error":\{"code":401/);
  expect(said).toMatch(/calendar\/ada +sandbox-calendar +reauthorization_required: invalid_grant/);
  expect(said).toMatch(/auth\.refresh +failed +calendar\/ada/);

  // The tour has created the integrations of an API key and a password.
  const call = await callerOf(running, cwd);
  const session = { end_user: { id: "bob" }, allowed_integrations: ["sandbox-api-key", "sandbox-basic"] };
  const made = await call("/connect/sessions", { method: "POST", body: JSON.stringify(session) });
  const page = await (await fetch(made.body.data.connect_link)).text();
  expect(page).toContain('integration=sandbox-api-key"');
  expect(page).toContain('integration=sandbox-basic"');

  const printed = await pasted(`${latchkey} tour --print`, cwd);
  for (const line of printed.split("\n").filter((one) => one.startsWith("  ") && !one.startsWith("  #"))) {
    expect(said).toContain(line);
  }
  expect(printed.split("\n").filter((line) => line.length > 80)).toEqual([]);
  await stop(running);
  const late = spawn(process.execPath, [programFile, "tour"], { cwd });
  expect((await once(late, "close"))[0]).toBe(1);
});

const eventsSync = `import { createSync } from "latchkey/scripts";   // or "nango": scripts of that peer run as they are
import * as z from "zod";

export default createSync({
  description: "The events of the primary calendar.",
  frequency: "every hour",                 // 30 seconds to 31 days
  syncType: "full",                        // or incremental: nango.lastSyncDate, getCheckpoint and saveCheckpoint
  trackDeletes: true,
  models: { Event: z.object({ id: z.string(), summary: z.string().optional() }) },
  endpoints: [{ method: "GET", path: "/calendar/events-now" }],
  webhookSubscriptions: ["*"],
  exec: async (nango) => {
    for await (const page of nango.paginate({ endpoint: "/v3/calendars/primary/events" })) {
      await nango.batchSave(page, "Event");
    }
  },
  onWebhook: async (nango, payload) => nango.log("something changed", payload),
});
`;

it("uses an existing folder of scripts, and prints how to try one", async () => {
  const cwd = await temporaryFolder();
  writeScripts(join(cwd, "scripts"), { "syncs/events.ts": eventsSync }, "calendar");
  const running = await readyDev(cwd);
  const printed = await pasted(`${latchkey} tour --print`, cwd);
  const [block = ""] = /\n {2}# List your scripts, in .\/scripts, [\s\S]*?\n\n/.exec(printed) ?? [];
  const said = await pasted(pastedFrom(block), cwd);
  expect(said).toMatch(/calendar +sync +events +good +every hour/);
  expect(said).toMatch(
    /sync events of calendar\/ada {2}succeeded\n[\s\S]*records would be saved\n +model=Event {2}count=5\n/,
  );
  await stop(running);
  expect(await readdir(join(cwd, "scripts"), { recursive: true })).toHaveLength(3);
});

it("prints no scripts without a folder, and names the folder of a variable", async () => {
  const cwd = await temporaryFolder();
  const first = await readyDev(cwd);
  expect(await pasted(`${latchkey} tour --print`, cwd)).not.toContain("scripts list");
  await stop(first);
  expect(await readdir(cwd)).not.toContain("scripts");
  const folder = await temporaryFolder();
  const second = await readyDev(cwd, { env: { LATCHKEY_SCRIPTS: folder } });
  const printed = await pasted(`${latchkey} tour --print`, cwd);
  expect(printed).toContain(`  # List your scripts, in ${folder}\n  latchkey scripts list`);
  await stop(second);
});

it("stops latchkey and the sandbox on a signal", async () => {
  const cwd = await temporaryFolder();
  const running = await readyDev(cwd);
  const origin = sandboxOf(running);
  expect((await fetch(`${origin}/_sandbox`)).status).toBe(200);
  await stop(running);
  await expect(fetch(origin)).rejects.toThrow();
  await expect(fetch(running.address("data"))).rejects.toThrow();
});

it("restarts over its folder with new tokens at a new address, and keeps the developer's own records", async () => {
  const cwd = await temporaryFolder();
  const first = await readyDev(cwd);
  const call = await callerOf(first, cwd);
  const before = await call("/connections/ada?provider_config_key=files&refresh_token=true");
  expect(before.body.credentials).toMatchObject({ type: "OAUTH2", refresh_token: expect.stringMatching(/^sbx_rt_/) });
  expect(before.body.tags).toEqual({ "made-by": "latchkey-dev" });
  const own = { provider_config_key: "files", connection_id: "bob", credentials: before.body.credentials };
  expect((await call("/connections", { method: "POST", body: JSON.stringify(own) })).status).toBe(201);
  const metadata = { provider_config_key: "files", connection_id: "ada", metadata: { note: "kept" } };
  await call("/connections/metadata", { method: "PATCH", body: JSON.stringify(metadata) });
  // Without the tag the connection belongs to the developer.
  const claimed = { method: "PATCH", body: JSON.stringify({ tags: { team: "mine" } }) };
  expect((await call("/connections/ada?provider_config_key=unified", claimed)).status).toBe(200);
  const claim = await call("/connections/ada?provider_config_key=unified&credentials=false");
  await stop(first);

  const second = await readyDev(cwd);
  expect(sandboxOf(second)).not.toBe(sandboxOf(first));
  const again = await callerOf(second, cwd);
  const after = await again("/connections/ada?provider_config_key=files&refresh_token=true");
  expect(after.body.credentials.refresh_token).not.toBe(before.body.credentials.refresh_token);
  expect(after.body).toMatchObject({ metadata: { note: "kept" }, tags: { "made-by": "latchkey-dev" }, errors: [] });
  expect((await again("/proxy/drive/v3/files", through("files"))).status).toBe(200);
  expect((await again("/proxy/v3/calendars/primary/events", through("calendar"))).status).toBe(200);
  expect(second.stdout()).toContain("Not replaced, because they are yours: unified/ada.");
  const left = await again("/connections/ada?provider_config_key=unified&credentials=false");
  expect(left.body.updated_at).toBe(claim.body.updated_at);
  const { body } = await again("/connections/bob?provider_config_key=files&credentials=false");
  expect(body.connection_id).toBe("bob");
  await stop(second);

  const third = await readyDev(cwd, { args: ["--sandbox", new URL(sandboxOf(second)).host] });
  const trail = spawn(
    process.execPath,
    [programFile, "audit", "list", "--all", "--json", "--address", third.address("control")],
    { cwd },
  );
  let lines = "";
  trail.stdout.on("data", (text) => {
    lines += text;
  });
  await once(trail, "close");
  // Described once, and once more when the address had changed; at the same address there is nothing to change.
  expect(lines.match(/provider\.update/g)).toHaveLength(7);
  expect(lines.match(/integration\.create/g)).toHaveLength(3);
  await stop(third);
});

it("does not change an integration that has taken the name of a sample", async () => {
  const cwd = await temporaryFolder();
  const serving = launch(["serve"], { folder: join(cwd, ".latchkey"), cwd });
  await serving.says('"phase":"ready"');
  const key = { authorization: "Bearer lk_test-secret-key-of-the-environment-dev", "content-type": "application/json" };
  const body = JSON.stringify({ unique_key: "calendar", provider: "private-api-key" });
  const made = await fetch(`${serving.address("data")}/integrations`, { method: "POST", headers: key, body });
  expect(made.status).toBe(200);
  await stop(serving);
  const seal = { LATCHKEY_SEAL_KEYS: `test:${Buffer.alloc(32, 7).toString("base64")}` };
  const running = await readyDev(cwd, { env: seal });
  expect(running.stdout()).toContain("Not replaced, because they are yours: calendar/ada.");
  const printed = await pasted(`${latchkey} tour --print`, cwd);
  expect(printed).not.toContain("/_sandbox/revoke");
  expect(printed).not.toContain("/webhook/");
  const call = await callerOf(running, cwd);
  expect((await call("/connections/ada?provider_config_key=calendar")).status).toBe(404);
  expect((await call("/proxy/drive/v3/files", through("files"))).status).toBe(200);
});

it("allows plain HTTP to the sandbox beside the addresses that the operator allows", async () => {
  const cwd = await temporaryFolder();
  const { port } = await startProvider();
  const file = join(cwd, "latchkey.yaml");
  const mine = { name: "mine", api_key: { header: "x-api-key" }, proxy: { base_url: `https://127.0.0.1:${port}` } };
  await writeFile(file, JSON.stringify({ providers: [mine] }));
  const env = { LATCHKEY_CONFIG: file, LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port}` };
  const running = await readyDev(cwd, { env });
  const call = await callerOf(running, cwd);
  const made = [
    ["/integrations", { unique_key: "mine", provider: "mine" }],
    [
      "/connections",
      { provider_config_key: "mine", connection_id: "ada", credentials: { type: "API_KEY", apiKey: "k" } },
    ],
  ] as const;
  for (const [path, body] of made) await call(path, { method: "POST", body: JSON.stringify(body) });
  expect((await call("/proxy/anything", through("mine"))).body.line).toBe("GET /anything HTTP/1.1");
  expect((await call("/proxy/drive/v3/files", through("files"))).status).toBe(200);
});

it("adds its environment to those of a configuration file", async () => {
  const cwd = await temporaryFolder();
  const file = fileURLToPath(new URL("dev.yaml", import.meta.url));
  const running = await readyDev(cwd, { env: { LATCHKEY_CONFIG: file } });
  const call = await callerOf(running, cwd);
  expect((await call("/proxy/drive/v3/files", through("files"))).status).toBe(200);
  await stop(running);
});

it("reports the sandbox's port in use with a remedy, and starts nothing", async () => {
  const first = await readyDev(await temporaryFolder());
  const cwd = await temporaryFolder();
  const second = await devIn(cwd, { args: ["--sandbox", new URL(sandboxOf(first)).host] });
  expect(await second.exited).toBe(1);
  expect(second.stderr()).toMatch(/^latchkey: the sandbox cannot listen on 127\.0\.0\.1:\d+: .*--sandbox :0\n$/);
  expect(second.stdout()).toBe("");
});

it.each(["unix:/tmp/x", "nonsense"])("refuses --sandbox %s", async (address) => {
  const running = await devIn(await temporaryFolder(), { args: ["--sandbox", address] });
  expect(await running.exited).toBe(2);
  expect(running.stderr()).toContain("--sandbox must be host:port");
});

it("ends the sandbox with a sidecar that cannot start", async () => {
  const first = await readyDev(await temporaryFolder());
  const env = { LATCHKEY_DATA_LISTEN: new URL(first.address("data")).host };
  const second = await devIn(await temporaryFolder(), { env });
  expect(await second.exited).toBe(1);
  expect(second.stdout()).toMatch(/the data listener cannot use/);
});

const usual = {
  data: "http://127.0.0.1:3003",
  control: "http://127.0.0.1:3004",
  ops: "http://127.0.0.1:3005",
  dashboard: "http://127.0.0.1:3004/ui/",
  sandbox: "http://127.0.0.1:3010",
  keyWord: "$(cat .latchkey/secret-key)",
  latchkey: "npm run -s latchkey --",
  kept: [],
};

it("says how to open the dashboard, if it is on", () => {
  expect(devPage(usual)).toContain(
    "tour   more to try, step by step\n  npm run -s latchkey -- open   the dashboard, signed in\n",
  );
  expect(devPage({ ...usual, dashboard: undefined })).not.toContain("dashboard");
});

it("fits on a terminal of 80 columns", () => {
  const wide = devPage(usual)
    .split("\n")
    .filter((line) => line.length > 80);
  expect(wide).toEqual([]);
});

it("quotes for the shell where needed, and supports Unix sockets", () => {
  const page = devPage({ ...usual, data: "unix:/tmp/a b/data", keyWord: shellWordOf({ value: "it's" }) });
  expect(page).toContain("--unix-socket '/tmp/a b/data' \\\n    'http://localhost/proxy/drive/v3/files?pageSize=3'");
  expect(page).toContain("export KEY='it'\\''s'");
});
