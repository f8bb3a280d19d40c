import { spawnSync } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { adminKey, sealKey, secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch, serveInProcess } from "../../support/sidecar/process.ts";

/** Runs `serve` with these variables until it refuses them. */
async function refusal(env: Readonly<Record<string, string | undefined>>, folder?: string) {
  const running = launch(["serve"], { env, folder: folder ?? (await temporaryFolder()) });
  const code = await running.exited;
  return { code, said: `${running.stdout()}${running.stderr()}` };
}

async function configFile(text: string): Promise<string> {
  const path = join(await temporaryFolder(), "latchkey.yaml");
  await writeFile(path, text);
  return path;
}

it("F01 names three mistakes at once, exits 78, and shows no secret", async () => {
  const { code, said } = await refusal({
    LATCHKEY_SEAL_KEYS: "main:c2hvcnQ=",
    LATCHKEY_ADMIN_KEY: "hunter2",
    LATCHKEY_GRACE: "soon",
  });
  expect(code).toBe(78);
  expect(said).toMatch(/the key "main" has 5 bytes; it must have 32/);
  expect(said).toMatch(/LATCHKEY_ADMIN_KEY must have at least 16 characters/);
  expect(said).toMatch(/LATCHKEY_GRACE must be a duration/);
  expect(said).not.toMatch(/hunter2|c2hvcnQ/);
});

it.each([
  ["an unknown variable", { LATCHKEY_PROT: "1" }, /LATCHKEY_PROT is not a variable/],
  ["a port with a blank", { LATCHKEY_DATA_LISTEN: ":8080 " }, /LATCHKEY_DATA_LISTEN: ":8080 "/],
  ["a port that is none", { LATCHKEY_DATA_LISTEN: "127.0.0.1:65536" }, /LATCHKEY_DATA_LISTEN/],
  ["a port without a host's colon", { LATCHKEY_OPS_LISTEN: "8080" }, /LATCHKEY_OPS_LISTEN/],
  [
    "the same port twice",
    { LATCHKEY_DATA_LISTEN: ":3999", LATCHKEY_OPS_LISTEN: ":3999" },
    /data door and the ops door.*3999/,
  ],
  ["a level that is none", { LATCHKEY_LOG_LEVEL: "loud" }, /LATCHKEY_LOG_LEVEL must be one of debug, info/],
  ["a store that is none", { LATCHKEY_STORE: "redis://x" }, /LATCHKEY_STORE must be level:/],
])("F02 refuses %s by name", async (_what, env, message) => {
  const { code, said } = await refusal(env);
  expect(code).toBe(78);
  expect(said).toMatch(message);
});

const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

it.each([
  ["an address that is none", { OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318" }, /OTEL_EXPORTER_OTLP_ENDPOINT must be/],
  [
    "a user in it",
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://ada:hunter2@127.0.0.1:4318" },
    /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be/,
  ],
  [
    "fields that are none",
    { ...collector, OTEL_EXPORTER_OTLP_HEADERS: "a=1,hunter2" },
    /OTLP_HEADERS: entry 2 must be/,
  ],
  [
    "a line break in a field",
    { ...collector, OTEL_EXPORTER_OTLP_TRACES_HEADERS: "a=hunter2%0d%0a" },
    /OTLP_TRACES_HEADERS: entry 1 must be/,
  ],
  ["a protocol we do not speak", { ...collector, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, /OTLP_PROTOCOL must be one of/],
  ["a sampler that is none", { ...collector, OTEL_TRACES_SAMPLER: "xray" }, /OTEL_TRACES_SAMPLER must be one of/],
  [
    "a share that is none",
    { ...collector, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "2" },
    /OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1/,
  ],
  [
    "an exporter that is none",
    { ...collector, OTEL_TRACES_EXPORTER: "console" },
    /OTEL_TRACES_EXPORTER must be one of/,
  ],
  ["a time that is none", { ...collector, OTEL_BSP_SCHEDULE_DELAY: "5s" }, /OTEL_BSP_SCHEDULE_DELAY must be a whole/],
  ["a list that is none", { ...collector, OTEL_RESOURCE_ATTRIBUTES: "a" }, /OTEL_RESOURCE_ATTRIBUTES: entry 1 must be/],
  ["neither true nor false", { ...collector, OTEL_SDK_DISABLED: "perhaps" }, /OTEL_SDK_DISABLED must be one of/],
  [
    "authorities that are not there",
    { ...collector, OTEL_EXPORTER_OTLP_CERTIFICATE: "/nowhere" },
    /OTLP_CERTIFICATE: .nowhere cannot be read \(ENOENT\)/,
  ],
])("F02 refuses a configuration of spans with %s by name, and shows no value", async (_what, env, message) => {
  const { code, said } = await refusal(env);
  expect(code).toBe(78);
  expect(said).toMatch(message);
  expect(said).not.toMatch(/hunter2/);
});

it("ignores OpenTelemetry's variables without a collector: other programs of the pod may share them", () => {
  const others = { OTEL_TRACES_SAMPLER: "xray", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_METRICS_EXPORTER: "none" };
  const files = { read: () => ({ text: "", mode: 0o600 }) };
  expect(parseConfig({ env: { LATCHKEY_SEAL_KEYS: sealKey, ...others }, files }).tracing).toBeUndefined();
  // The specification's default address, used if only the exporter is named.
  const named = {
    LATCHKEY_SEAL_KEYS: sealKey,
    OTEL_TRACES_EXPORTER: "otlp",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  };
  const { tracing, warnings } = parseConfig({ env: named, files });
  expect(tracing?.endpoint).toBe("http://localhost:4318/v1/traces");
  expect(warnings).toEqual([expect.stringContaining("http/json")]);
});

it.each([
  ["an unknown key", "enviroments: []", /enviroments: unknown key/],
  ["an unknown key within", "environments: [{ name: prod, colour: blue }]", /environments\[0\]\.colour: unknown key/],
  ["a wrong type", "limits: { head_lines: many }", /limits\.head_lines: must be a number/],
  [
    "a secret that stands in it",
    "environments: [{ name: prod, keys: [{ id: app, key: lk_sesame }] }]",
    /environments\[0\]\.keys\[0\]\.key: must be \{env: NAME\} or \{file: path\}/,
  ],
  [
    "a scope that is none",
    "environments: [{ name: prod, keys: [{ id: app, key: { env: K }, scopes: [everything] }] }]",
    /is not a scope/,
  ],
  [
    "a misspelled scope",
    "environments: [{ name: prod, keys: [{ id: app, key: { env: K }, scopes: [conections:read] }] }]",
    /is not a scope\. Did you mean "connections:read"\?/,
  ],
  ["what is not YAML", "environments: [", /cannot be read/],
])("F02 refuses a configuration file with %s", async (_what, text, message) => {
  const { code, said } = await refusal({ LATCHKEY_CONFIG: await configFile(text), K: "a-key-of-some-length" });
  expect(code).toBe(78);
  expect(said).toMatch(message);
  expect(said).not.toMatch(/lk_sesame|a-key-of-some-length/);
});

it.each([
  ["is missing", undefined, /LATCHKEY_SEAL_KEYS is required/],
  ["has 31 bytes", `k:${Buffer.alloc(31).toString("base64")}`, /has 31 bytes/],
  ["is not base64", "k:!!!!", /not base64/],
  ["has no id", Buffer.alloc(32).toString("base64"), /must be id:base64/],
  ["is there twice", `${sealKey},${sealKey}`, /is a duplicate/],
])("F03 refuses to start when the encryption key %s", async (_what, value, message) => {
  const { code, said } = await refusal({ LATCHKEY_SEAL_KEYS: value });
  expect(code).toBe(78);
  expect(said).toMatch(message);
});

it("F03 accepts an encryption key from a file with a final newline, and refuses a file that everyone can read", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "seal");
  await writeFile(path, `${sealKey}\n`, { mode: 0o600 });
  const env = { LATCHKEY_SEAL_KEYS: undefined, LATCHKEY_SEAL_KEYS_FILE: path };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(0);

  await chmod(path, 0o644);
  const { code, said } = await refusal(env);
  expect(code).toBe(78);
  expect(said).toMatch(/open to all users \(mode 644\)/);
  // The key is not missing: one mistake, one report.
  expect(said).not.toContain("is required");
});

it("F04 refuses to open a store with another encryption key, and names both", async () => {
  const folder = await temporaryFolder();
  const running = await serveInProcess({ folder });
  running.child.kill("SIGTERM");
  await running.exited;
  const { code, said } = await refusal(
    { LATCHKEY_SEAL_KEYS: `other:${Buffer.alloc(32, 9).toString("base64")}` },
    folder,
  );
  expect(code).toBe(78);
  expect(said).toMatch(/\\"test\\", which is not configured \(configured: \\"other\\"\)/);
});

it("F05 refuses a public URL without a scheme, takes the slash from one with a path, and warns of http", async () => {
  expect((await refusal({ LATCHKEY_PUBLIC_URL: "latchkey.example" })).said).toMatch(
    /LATCHKEY_PUBLIC_URL must be https/,
  );
  expect((await refusal({ LATCHKEY_DOCS_URL: "docs.example" })).said).toMatch(/LATCHKEY_DOCS_URL must be https/);

  const folder = await temporaryFolder();
  const running = await serveInProcess({ folder, env: { LATCHKEY_PUBLIC_URL: "http://latchkey.example/base/" } });
  expect(running.stdout()).toMatch(/LATCHKEY_PUBLIC_URL is http/);
  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  const body = JSON.stringify({ unique_key: "calendar", provider: "calendar" });
  await fetch(`${running.address("data")}/integrations`, { method: "POST", headers, body });
  const shown = await fetch(`${running.address("data")}/integrations/calendar?include=webhook`, { headers });
  const { data } = (await shown.json()) as { data: { webhook_url: string } };
  expect(data.webhook_url).toMatch(/^http:\/\/latchkey\.example\/base\/webhook\/[\w-]{22}\/calendar$/);
});

it.each([
  [
    "a host template that no field describes",
    "{ name: x, api_key: {}, proxy: { base_url: 'https://${connectionConfig.sub}.x.example' } }",
    /connectionConfig\.sub/,
  ],
  [
    "a base URL that is http",
    "{ name: x, api_key: {}, proxy: { base_url: 'http://x.example' } }",
    /proxy\.base_url: must be https/,
  ],
  ["an unknown kind of authentication", "{ name: x, telepathy: {} }", /telepathy/],
  ["no authentication at all", "{ name: x }", /auth/],
  [
    "an authorization URL that is http elsewhere",
    "{ name: x, oauth2: { authorization_url: 'http://127.0.0.1.evil.example/auth' } }",
    /oauth2\.authorization_url/,
  ],
  ["a token URL that is http", "{ name: x, oauth2: { token_url: 'http://x.example/token' } }", /oauth2\.token_url/],
])("F06 refuses a provider with %s", async (_what, provider, message) => {
  const { code, said } = await refusal({ LATCHKEY_CONFIG: await configFile(`providers: [${provider}]`) });
  expect(code).toBe(78);
  expect(said).toMatch(message);
});

it("F07 keeps the last valid configuration when the file is broken, reports it in a metric, and applies the corrected file", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  const file = (id: string) => `environments: [{ name: prod, keys: [{ id: ${id}, key: { env: APP_KEY } }] }]\n`;
  await writeFile(path, file("app"));
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: undefined, APP_KEY: "an-application-key" };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  const works = async () =>
    (await fetch(`${running.address("data")}/connections`, { headers: { authorization: "Bearer an-application-key" } }))
      .status;
  const rejected = async () =>
    /^latchkey_config_rejected (\d)$/m.exec(await (await fetch(`${running.address("ops")}/metrics`)).text())?.[1];
  expect(await works()).toBe(200);

  await writeFile(path, "environments: [{ name: prod, keys: 7 }]\n");
  running.child.kill("SIGHUP");
  await running.says("the configuration file was rejected");
  expect(await rejected()).toBe("1");
  expect(await works()).toBe(200);

  await writeFile(path, file("renamed"));
  running.child.kill("SIGHUP");
  await running.says("the configuration file was applied");
  expect(await rejected()).toBe("0");
  expect(await works()).toBe(200);
});

it("F07 applies a changed file without a signal, and removes what it no longer declares", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  const environment = "environments: [{ name: prod, keys: [{ id: app, key: { env: APP_KEY } }] }]\n";
  await writeFile(path, `${environment}integrations: [{ environment: prod, key: files, provider: file-storage }]\n`);
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: undefined, APP_KEY: "an-application-key" };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  const headers = { authorization: "Bearer an-application-key", "content-type": "application/json" };
  const rename = () =>
    fetch(`${running.address("data")}/integrations/files`, {
      method: "PATCH",
      headers,
      body: '{"display_name":"Files"}',
    });
  const refused = await rename();
  expect([refused.status, refused.headers.get("latchkey-error")]).toEqual([409, "read_only"]);

  await writeFile(path, environment);
  await running.says("the configuration file was applied");
  expect((await rename()).status).toBe(200);
});

it("F08 says why a store folder cannot be used, and exits", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "file");
  await writeFile(file, "");
  const { code, said } = await refusal({ LATCHKEY_STORE: `level:${file}` });
  expect(code).toBe(1);
  expect(said).toMatch(/cannot start|ENOTDIR|EEXIST/);
  expect(said).toMatch(/file/);
});

it("F08 refuses a store folder that others can read", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "store"));
  await chmod(join(folder, "store"), 0o755);
  const { code, said } = await refusal({}, folder);
  expect(code).toBe(1);
  expect(said).toMatch(/mode 755\); it must be 700/);
});

it.skipIf(lacks("tmpfs"))("F08 says that there is no space for a new store, and exits", async () => {
  const folder = await temporaryFolder();
  expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]).status).toBe(0);
  onTestFinished(() => void spawnSync("umount", ["-l", folder]));
  await writeFile(join(folder, "filler"), Buffer.alloc(60 * 1024)).catch(() => undefined);
  const { code, said } = await refusal({}, folder);
  expect(code).toBe(1);
  expect(said).toMatch(/there is no space for a store/);
});

it("creates its keys on the first start, in private files, and prints none of them", async () => {
  const folder = await temporaryFolder();
  const env = { LATCHKEY_SECRET_KEY: undefined, LATCHKEY_ADMIN_KEY: undefined };
  const running = await serveInProcess({ folder, env });
  const { readFile, stat } = await import("node:fs/promises");
  for (const name of ["secret-key", "admin-key"]) {
    expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
    const key = (await readFile(join(folder, name), "utf8")).trim();
    expect(key).toMatch(/^lk_[\w-]{38}$/);
    expect(running.stdout() + running.stderr()).not.toContain(key);
    // The message names the folder to look in.
    expect(running.stdout()).toContain(join(folder, name));
  }
  expect(adminKey).not.toBe("");
});

it("F07 refuses a file that takes away a provider which is in use", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  const environment = "environments: [{ name: prod, keys: [{ id: app, key: { env: APP_KEY } }] }]\n";
  const provider = "providers: [{ name: mine, api_key: {}, proxy: { base_url: 'https://api.mine.example' } }]\n";
  await writeFile(path, environment + provider);
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: undefined, APP_KEY: "an-application-key" };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  const headers = { authorization: "Bearer an-application-key", "content-type": "application/json" };
  const body = '{"unique_key":"ours","provider":"mine"}';
  const made = await fetch(`${running.address("data")}/integrations`, { method: "POST", headers, body });
  expect(made.status).toBe(200);

  await writeFile(path, environment);
  running.child.kill("SIGHUP");
  await running.says("the configuration file was rejected");
  expect((await fetch(`${running.address("data")}/providers/mine`, { headers })).status).toBe(200);

  // With that file it starts: the integration set up with the provider is still shown.
  running.child.kill("SIGTERM");
  await running.exited;
  const again = await serveInProcess({ folder: join(folder, "data"), env });
  const list = await fetch(`${again.address("data")}/integrations`, { headers });
  expect(await list.json()).toMatchObject({ data: [{ unique_key: "ours", provider: "mine" }] });
});
