import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import {
  ConfigDifference_Kind as Kind,
  type ListWarningsResponse,
  ConfigSetting_Origin as Origin,
  Warning_Severity as Severity,
  SystemService,
} from "../../../src/gen/latchkey/v1/system_pb.ts";
import { createIntegrations, startTestSidecar } from "../../support/sidecar/harness.ts";
import { foreignClient } from "./foreign.ts";

const secret = "a-secret-that-nobody-may-read-here";
const path = "/etc/latchkey.yaml";
const file = `environments:
  - name: dev
    variables: { MAILER: ${secret} }
retention:
  logs: 7d
limits: { head_lines: 100 }
`;
const readerOf = (text: string) => ({ read: () => ({ text, mode: 0o600 }) });

it("shows each value in force with its origin, and what a reload changed, without a secret", async () => {
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_ALLOWED_ORIGINS: "https://app.example" };
  const { client, sidecar } = await startTestSidecar({ env, files: { [path]: file } });
  const read = async () => {
    const config = await client(SystemService).getConfig({});
    expect(JSON.stringify(config, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.toMatch(
      /a-secret-that|lk_test-|BwcHBwcH/,
    );
    return { ...config, by: new Map(config.settings.map((one) => [one.name, one])) };
  };
  const { by, lastReload, file: name } = await read();
  expect([name, lastReload]).toEqual([path, undefined]);
  expect(by.get("retention.logs")).toMatchObject({ value: "7d", origin: Origin.FILE, file: path, line: 5 });
  expect(by.get("environments.dev.variables.MAILER")).toMatchObject({ value: "", secret: true, line: 3 });
  expect(by.get("LATCHKEY_ALLOWED_ORIGINS")).toMatchObject({
    value: "https://app.example",
    origin: Origin.VARIABLE,
    variable: "LATCHKEY_ALLOWED_ORIGINS",
    meaning: expect.stringContaining("origins"),
  });
  expect(by.get("LATCHKEY_SEAL_KEYS")).toMatchObject({ value: "", secret: true, origin: Origin.VARIABLE });
  expect(by.get("LATCHKEY_LOG_LEVEL")).toMatchObject({ value: "info", secret: false, origin: Origin.DEFAULT });

  const changed = file.replace("7d", "8d").replace("100", "150").replace(secret, `${secret}-2`);
  const apply = (text: string) => sidecar.reload(() => parseChangeable({ path, env: {}, files: readerOf(text) }));
  await apply(changed);
  const after = await read();
  expect(after.lastReload?.applied).toBe(true);
  const differences = after.lastReload?.differences.map(({ $typeName: _, ...one }) => one);
  expect(differences).toEqual([
    { name: "environments.dev.variables.MAILER", kind: Kind.CHANGED, before: "", after: "", needsRestart: false },
    { name: "limits.head_lines", kind: Kind.CHANGED, before: "100", after: "150", needsRestart: true },
    { name: "retention.logs", kind: Kind.CHANGED, before: '"7d"', after: '"8d"', needsRestart: false },
  ]);
  expect(after.by.get("retention.logs")?.value).toBe("8d");
  expect(after.by.get("limits.head_lines")).toMatchObject({ value: "100", needsRestart: true });

  await apply("retention: { logs: never }");
  const rejected = await read();
  expect(rejected.lastReload).toMatchObject({ applied: false, mistakes: [expect.stringContaining("retention.logs")] });
  expect(rejected.by.get("retention.logs")?.value).toBe("8d");
  const { warnings } = await client(SystemService).listWarnings({});
  expect(warnings.map(({ code }) => code)).toEqual(expect.arrayContaining(["config_rejected", "restart_needed"]));
  expect(warnings[0]).toMatchObject({ code: "config_rejected", severity: Severity.CRITICAL });
});

const codesOf = ({ warnings }: ListWarningsResponse) =>
  warnings.map(({ code, environment }) => `${environment} ${code}`);
const day = 86_400_000;

it("warns of backups, keys and integrations, each key of what it may see", async () => {
  let now = Date.now();
  const running = await startTestSidecar({ now: () => now });
  await createIntegrations(running);
  const { client, control } = running;
  const environments = client(EnvironmentService);
  await environments.createEnvironment({ name: "prod", forwardUrl: "https://app.example/hooks" });
  const expiresAt = timestampFromMs(now + 9 * day);
  await environments.createKey({ environment: "prod", id: "short", expiresAt });
  const own = await environments.createKey({ environment: "prod", scopes: [Scope.CONNECTIONS_READ] });
  const seen = async () => codesOf(await client(SystemService).listWarnings({}));
  const ofIntegrations = ["dev client_missing", "dev client_missing"];
  const ofDev = [...ofIntegrations, "dev forward_url_missing"];
  expect(await seen()).toEqual(ofDev);

  now += 8 * day;
  expect(await seen()).toEqual([" backup_missing", ...ofIntegrations, "prod key_expires", "dev forward_url_missing"]);
  for await (const _ of client(StoreService).backup({}));
  for await (const _ of client(StoreService).scrub({}));
  expect(await seen()).not.toContain(" backup_missing");
  const { lastScrub } = await client(StoreService).getStoreStatus({});
  expect(lastScrub).toMatchObject({ actor: "admin-key", damaged: 0n, at: timestampFromMs(now) });
  now += 8 * day;
  expect(await seen()).toEqual(expect.arrayContaining([" backup_old", "prod key_expired"]));

  // A key of an environment learns nothing of others, and nothing of the store.
  expect(await client(SystemService, own.secret).listWarnings({})).toMatchObject({ warnings: [], truncated: false });
  const call = (method: string, body = {}) =>
    foreignClient(control)
      .unary(`SystemService/${method}`, body, { key: own.secret })
      .then(
        () => 0,
        ({ code }) => code,
      );
  expect(await call("ListWarnings", { environment: "dev" })).toBe(Code.PermissionDenied);
  for (const method of ["GetConfig", "ListReplicas"]) expect(await call(method)).toBe(Code.PermissionDenied);
});

it("shows one replica with its background work, where no other can share the store", async () => {
  const { client, sidecar } = await startTestSidecar();
  await sidecar.broker.keepHouse();
  const { replicas } = await client(SystemService).listReplicas({});
  expect(replicas).toHaveLength(1);
  expect(replicas[0]).toMatchObject({ answering: true, behind: 0n, partitions: 64 });
  expect(replicas[0]?.duties).toEqual(expect.arrayContaining(["channels", "deliveries", "housekeeping", "runs"]));
});

it("rotates a key: both work in the overlap, then only the new one", async () => {
  let now = Date.now();
  const { client } = await startTestSidecar({ now: () => now });
  const environments = client(EnvironmentService);
  const works = async (key: string) => {
    try {
      return (await client(EnvironmentService, key).getCaller({})).keyId;
    } catch {
      return "refused";
    }
  };
  const old = await environments.createKey({ environment: "dev", id: "app", scopes: [Scope.PROXY] });
  expect(old.key).toMatchObject({ createdBy: "admin-key", replaces: "" });
  const made = await environments.rotateKey({ id: "app", overlap: { seconds: 3_600n } });
  expect(made.key).toMatchObject({ id: "app-2", environment: "dev", scopes: [Scope.PROXY], replaces: "app" });
  expect(made.previous?.expiresAt && timestampDate(made.previous.expiresAt).getTime()).toBe(now + 3_600_000);
  expect([await works(old.secret), await works(made.secret)]).toEqual(["app", "app-2"]);
  const { warnings } = await client(SystemService).listWarnings({});
  expect(warnings.find(({ code }) => code === "key_expires")).toMatchObject({
    name: "app",
    severity: Severity.NOTICE,
    remedy: 'give its callers the successor "app-2" before',
  });
  now += 3_600_000;
  expect([await works(old.secret), await works(made.secret)]).toEqual(["refused", "app-2"]);

  const next = await environments.rotateKey({ id: "app-2", newId: "server", overlap: { seconds: 0n } });
  expect(next.previous).toBeUndefined();
  expect([await works(made.secret), await works(next.secret)]).toEqual(["refused", "server"]);
  const { keys } = await environments.listKeys({ environment: "dev" });
  expect(keys.map(({ id }) => id)).toEqual(["app", "secret-key", "server"]);
  for (const id of ["secret-key", "nobody"]) {
    await expect(environments.rotateKey({ id })).rejects.toMatchObject({
      code: id === "nobody" ? Code.NotFound : Code.FailedPrecondition,
    });
  }
  const { events } = await client(LogService).listAuditEvents({
    action: "key.rotate",
  });
  expect(events.map(({ targets }) => targets)).toEqual([
    ["app-2", "server"],
    ["app", "app-2"],
  ]);
});
