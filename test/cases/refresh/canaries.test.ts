import { generateKeyPairSync, randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { keyWith, setUp } from "../../support/sidecar/door.ts";
import { canary, everyKind, integrationOf, type KindOfCredentials } from "../../support/sidecar/every-kind.ts";
import { adminKey, secretKey, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { formsOf } from "../../support/wire/secret-forms.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { started } from "../sandbox/started.ts";

/** The kinds whose credentials a provider refreshes. */
const renewable = everyKind.filter(({ type }) =>
  ["OAUTH2", "OAUTH2_CC", "APP", "TWO_STEP", "SIGNATURE"].includes(type),
);

/** The kind with the sandbox's token endpoint if it has one, or else with the provider of the test. */
function authAt({ auth }: KindOfCredentials, origin: string): KindOfCredentials["auth"] {
  const tokenUrl = `${origin.replace("http:", "https:")}/oauth2/token`;
  return { ...auth, value: { ...auth.value, tokenUrl } } as KindOfCredentials["auth"];
}

async function filesUnder(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(await Promise.all(files.map(async (path) => [path, await readFile(path, "latin1")] as const)));
}

it("K03 L12 repeats no secret, whatever a token endpoint answers", { timeout: 120_000 }, async () => {
  const sandbox = await started();
  const folder = await temporaryFolder();
  const running = await startTestSidecar({
    folder,
    env: { LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin) },
  });
  const { rest, client, data, ops, logged } = running;
  const reader = await keyWith(running, Scope.CONNECTIONS_READ);
  const secrets = new Map<string, string>([
    ["the environment's key", secretKey],
    ["the control key", adminKey],
  ]);
  const told: string[] = [];
  // Found in the log and in the store's files: it shows that a search there finds something.
  const visible = `visible-${randomBytes(8).toString("hex")}`;

  const credentialsOf = new Map<string, object>();
  for (const kind of renewable) {
    const { type } = kind;
    const secret = (name: string) => {
      const made = canary(name);
      secrets.set(`${type} ${name}`, made);
      return made;
    };
    const name = integrationOf(kind);
    const secure = sandbox.origin.replace("http:", "https:");
    await setUp(running, { name, auth: authAt(kind, sandbox.origin), proxy: { baseUrl: secure } });
    const mine = { clientSecret: secret("app's secret"), webhookSecret: secret("webhooks"), privateKey: secret("key") };
    await client(IntegrationService).updateIntegration({
      integration: { key: name, oauth: { clientId: "sandbox" }, secrets: mine },
      updateMask: { paths: ["oauth.client_id", "secrets"] },
    });
    const whole = { ...kind.whole(secret), type, expires_at: "2020-01-01T00:00:00Z" };
    credentialsOf.set(name, whole);
    // The same with the integration's client, or with a key that is one.
    if (type === "OAUTH2") credentialsOf.set(`${name} `, { ...whole, config_override: undefined });
    if (type === "OAUTH2_CC") {
      const plain = { client_certificate: undefined, client_private_key: undefined };
      credentialsOf.set(`${name} `, { ...whole, ...plain });
    }
    if (type === "APP") {
      const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
      const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
      secrets.set("APP a line of its key", pem.split("\n")[3] ?? "");
      credentialsOf.set(`${name} `, { ...whole, private_key: pem });
    }
  }
  const all = [...secrets.values()].join(" ");
  const some = (i: number) => [...secrets.values()][(i % (secrets.size - 2)) + 2] ?? "";
  const json = "application/json";
  const fresh = { access_token: canary("new-access"), refresh_token: canary("new-refresh") };
  for (const [name, value] of Object.entries(fresh)) secrets.set(name, value);
  const object = (fields: object) => JSON.stringify(fields);
  type Misstep = NonNullable<NonNullable<Parameters<typeof sandbox.behave>[0]["answers"]>["token"]>[number];
  const missteps = (i: number): readonly Misstep[] => [
    { kind: "error", status: 400, error: "invalid_grant", description: `${all} ${visible}` },
    { kind: "error", status: 401, error: "invalid_client", description: all },
    { kind: "error", status: 400, error: some(i), description: all },
    { kind: "error", status: 400, error: `invalid_${some(i).slice(0, 24)}`, description: "" },
    { kind: "error", status: 429, error: "slow_down", headers: { "retry-after": some(i), "x-echo": some(i + 1) } },
    { kind: "error", status: 503, error: "server_error", description: all, headers: { "retry-after": "5" } },
    { kind: "raw", status: 200, text: `<html><title>${some(i)}</title>${all}</html>` },
    { kind: "raw", status: 500, text: `<html>${all}</html>` },
    { kind: "raw", status: 200, contentType: json, text: object({ ok: false, error: some(i), needed: all }) },
    { kind: "raw", status: 200, contentType: json, text: object({ error: { message: all, code: some(i) } }) },
    { kind: "raw", status: 200, contentType: json, text: `{"access_token":"${some(i)}` },
    { kind: "raw", status: 200, contentType: json, text: object({ access_token: `${some(i)}\r\n${all}` }) },
    { kind: "raw", status: 200, contentType: json, text: object({ access_token: 7, refresh_token: some(i) }) },
    { kind: "raw", status: 200, contentType: `text/${some(i)}`, text: all },
    {
      kind: "raw",
      status: 400,
      contentType: "application/x-www-form-urlencoded",
      text: `error=${encodeURIComponent(some(i))}`,
    },
    { kind: "redirect", location: `https://elsewhere.example/${some(i)}?${some(i + 1)}` },
    { kind: "large", bytes: 6_000_000 },
    { kind: "invalid-utf8" },
    { kind: "endless" },
    { kind: "reset-before-reading" },
    { kind: "reset-after-reading" },
    { kind: "drop-answer" },
    { kind: "cut-answer" },
    // A regular response.
    {
      kind: "raw",
      status: 200,
      contentType: json,
      text: object({
        ...fresh,
        token: fresh.access_token,
        expires_in: 1,
        id_token: all,
        token_type: "Bearer",
        more: all,
      }),
    },
  ];
  const outcomes = new Set<string>();
  let asked = 0;
  for (let i = 0; i < missteps(0).length; i += 1) {
    const misstep = missteps(i)[i];
    if (misstep === undefined) continue;
    sandbox.behave({ answers: { token: [misstep], files: [{ kind: "error", status: 401, error: "x" }] } });
    for (const [at, credentials] of credentialsOf) {
      const provider_config_key = at.trim();
      const connection_id = at.endsWith(" ") ? "other" : "c";
      // A change clears everything cached for the integration and the connection.
      await rest("PATCH", `/integrations/${provider_config_key}`, { body: { display_name: `${visible} ${i}` } });
      const body = { provider_config_key, connection_id, credentials, metadata: { visible } };
      expect((await rest("POST", "/connections", { body })).status).toBe(201);
      const headers = { authorization: `Bearer ${secretKey}`, ...{ "provider-config-key": provider_config_key } };
      const response = await fetch(`${data}/proxy/drive/v3/files`, {
        headers: { ...headers, "connection-id": connection_id },
      });
      outcomes.add(response.headers.get("latchkey-error") ?? `${response.status}`);

      told.push(await response.text(), JSON.stringify([...response.headers]));
      const path = `/connections/${connection_id}?provider_config_key=${provider_config_key}`;
      const shown = await rest("GET", `${path}&force_refresh=true`);
      if (shown.status !== 200) told.push(JSON.stringify([shown.body, ...shown.headers]));
      told.push(JSON.stringify((await rest("GET", path, { key: reader })).body));
      const ref = { environment: "dev", integration: provider_config_key, id: connection_id };
      const byRpc = await client(ConnectionService)
        .getConnection({ ref, includeCredentials: true })
        .catch((error: unknown) => error);
      if (byRpc instanceof ConnectError) told.push(byRpc.message, JSON.stringify([...byRpc.metadata, byRpc.details]));
      const noScope = await client(ConnectionService, reader).getConnection({ ref });
      told.push(show(noScope));
    }
    asked = sandbox.seen().requests.token ?? 0;
  }
  // Each kind went through all failures.
  expect(asked).toBeGreaterThan(missteps(0).length * renewable.length);
  for (const outcome of ["reauthorization_required", "integration_misconfigured", "refresh_unavailable", "401"]) {
    expect(outcomes).toContain(outcome);
  }
  expect(secrets.size).toBeGreaterThanOrEqual(40);

  const { logs } = await client(LogService).listLogs({ environment: "dev", pageSize: 1_000 });
  expect(logs.length).toBeGreaterThan(50);
  const whole = await Promise.all(logs.map(({ id }) => client(LogService).getLog({ environment: "dev", id })));
  const { events } = await client(LogService).listAuditEvents({ pageSize: 1_000 });
  const at = ["--address", running.control, "--key", adminKey];
  const terminal = memoryTerminal({ env: {}, isTerminal: false });
  expect(await runCli(["logs", "-e", "dev", "--json", ...at], terminal), terminal.err()).toBe(0);
  const backup = join(await temporaryFolder(), "backup");
  const quiet = memoryTerminal({ env: {}, isTerminal: false });
  expect(await runCli(["store", "backup", backup, ...at], quiet), quiet.err()).toBe(0);
  const exposition = await (await fetch(`${ops}/metrics`)).text();
  await running.stop();

  const files = await filesUnder(folder);
  const places = new Map<string, string>([
    ["what others were told", told.join("\n")],
    ["the process's log", logged.join("\n")],
    ["logs of operations", show(whole)],
    ["the command line", terminal.out()],
    ["the audit trail", show(events)],
    ["the metrics", exposition],
    ["a backup", await readFile(backup, "latin1")],
    ...files,
  ]);
  expect([...files.values()].join("")).toContain(visible);
  expect(show(whole)).toContain("invalid_grant");
  const hits = [...places].flatMap(([place, text]) =>
    [...secrets].flatMap(([name, secret]) =>
      formsOf(secret)
        .filter((form) => text.includes(form))
        .map((form) => `${name} as ${form} in ${place}: ${around(text, form)}`),
    ),
  );
  expect(hits).toEqual([]);
});

const show = (value: unknown): string =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" ? String(one) : one));

function around(text: string, form: string): string {
  const at = text.indexOf(form);
  return text.slice(Math.max(0, at - 200), at + 40);
}
