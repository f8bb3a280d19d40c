import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { signingSecretOf } from "../../../src/core/notifications/webhook-signature.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { keyWith } from "../../support/sidecar/door.ts";
import {
  type HarnessOptions,
  secretKey,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";

const [first, second] = [1, 2].map((n) => signingSecretOf(Buffer.alloc(32, n))) as [string, string];
const path = "/latchkey.yaml";
const ofProd = (reference: string) => `environments: [{ name: prod, forward: { secret: ${reference} } }]`;

async function start(options: HarnessOptions = {}) {
  const running = await startTestSidecar(options);
  const environments = running.client(EnvironmentService);
  const shown = async (environment = "") =>
    (await environments.listSigningSecrets({ environment, reveal: true })).secrets.map(({ secret }) => secret);
  return { running, environments, shown };
}

const reload = ({ sidecar }: TestSidecar, text: string, env: Readonly<Record<string, string>>) =>
  sidecar.reload(() => parseChangeable({ path, env, files: { read: () => ({ text, mode: 0o600 }) } }));

it("shows a secret only on request, and keeps it over a restart", async () => {
  const folder = await temporaryFolder();
  const { running, environments, shown } = await start({ folder });
  const [secret = ""] = await shown();
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const { secrets } = await environments.listSigningSecrets({ environment: "dev" });
  expect(secrets).toMatchObject([{ secret: "" }]);
  expect(secrets[0]?.createdAt).toBeDefined();
  await running.stop();
  const again = await start({ folder });
  expect(await again.shown("dev")).toEqual([secret]);
});

it("W21 rotates it, shows the new one, and by default signs with both for a day", async () => {
  let now = Date.parse("2026-01-01T00:00:00Z");
  const { running, environments, shown } = await start({ now: () => now });
  const [former] = await shown();
  const { secret: fresh } = await environments.rotateSigningSecret({});
  expect(await shown()).toEqual([fresh?.secret, former]);
  now += 24 * 3_600_000;
  expect(await shown()).toEqual([fresh?.secret]);

  await environments.rotateSigningSecret({ overlap: { seconds: 60n } });
  expect(await shown()).toHaveLength(2);
  now += 60_000;
  const [latest] = await shown();
  const { secret: last } = await environments.rotateSigningSecret({ environment: "dev", overlap: {} });
  expect(await shown()).toEqual([last?.secret]);
  expect(last?.secret).not.toBe(latest);

  const { events } = await running.client(LogService).listAuditEvents({ action: "signing_secret" });
  expect(events.map(({ actor, action }) => `${actor} ${action}`)).toEqual([
    ...Array(3).fill("admin-key signing_secret.rotate"),
    "latchkey signing_secret.create",
  ]);
  const said = JSON.stringify(events, (_, value) => (typeof value === "bigint" ? String(value) : value));
  expect(said + running.logged.join()).not.toContain("whsec_");
});

it.each([
  ["negative", { seconds: -1n }],
  ["longer than thirty days", { seconds: 30n * 86_400n + 1n }],
])("refuses an overlap that is %s", async (_what, overlap) => {
  const { environments, shown } = await start();
  const before = await shown();
  await expect(environments.rotateSigningSecret({ overlap })).rejects.toMatchObject({ code: Code.InvalidArgument });
  expect(await shown()).toEqual(before);
});

it("serves control keys alone, and no environment that is not there", async () => {
  const { running, environments } = await start();
  for (const key of [secretKey, await keyWith(running)]) {
    const asEnvironment = running.client(EnvironmentService, key);
    for (const asked of [
      () => asEnvironment.listSigningSecrets({}),
      () => asEnvironment.listSigningSecrets({ reveal: true }),
      () => asEnvironment.rotateSigningSecret({}),
    ]) {
      await expect(asked()).rejects.toMatchObject({ code: Code.PermissionDenied });
    }
  }
  await expect(environments.listSigningSecrets({ environment: "none" })).rejects.toMatchObject({ code: Code.NotFound });
  await environments.createEnvironment({ name: "prod" });
  await expect(environments.rotateSigningSecret({})).rejects.toMatchObject({ code: Code.InvalidArgument });
});

it("gives each environment its own secrets, which are deleted with it", async () => {
  const { environments, shown } = await start();
  await environments.createEnvironment({ name: "prod" });
  const before = await shown("prod");
  expect(before).not.toEqual(await shown("dev"));
  await environments.rotateSigningSecret({ environment: "prod" });
  await environments.deleteEnvironment({ name: "prod" });
  await environments.createEnvironment({ name: "prod" });
  const after = await shown("prod");
  expect(after).toHaveLength(1);
  expect(after).not.toEqual(before);
});

it("signs with a variable's secret for the default environment, and delivers to its address", async () => {
  const env = { LATCHKEY_FORWARD_URL: "http://127.0.0.1:8080/hooks", LATCHKEY_FORWARD_SECRET: first };
  const text = "environments: [{ name: prod }]";
  const { running, environments, shown } = await start({
    env: { ...env, LATCHKEY_CONFIG: path },
    files: { [path]: text },
  });
  const urls = async () => {
    const { environments: all } = await environments.listEnvironments({});
    return Object.fromEntries(all.map(({ name, forwardUrl, declared }) => [name, [forwardUrl, declared]]));
  };
  expect(await urls()).toEqual({ dev: [env.LATCHKEY_FORWARD_URL, true], prod: ["", true] });
  expect(await shown("dev")).toEqual([first]);
  expect(await shown("prod")).not.toEqual([first]);
  const refused = environments.rotateSigningSecret({ environment: "dev" });
  await expect(refused).rejects.toMatchObject({ rawMessage: expect.stringContaining("pinned in the configuration") });
  expect((await refused.catch((error) => error)).metadata.get("latchkey-error")).toBe("read_only");

  // A changed file does not affect values that variables set.
  await reload(running, "environments: [{ name: prod, forward: { url: https://app.example } }]", env);
  expect(await urls()).toEqual({ dev: [env.LATCHKEY_FORWARD_URL, true], prod: ["https://app.example", true] });
  expect(await shown("dev")).toEqual([first]);
});

it.each([
  ["LATCHKEY_FORWARD_URL", "https://app.example"],
  ["LATCHKEY_FORWARD_SECRET", first],
])("has a default environment beside those of the file if %s names it", async (name, value) => {
  const { environments } = await start({
    env: { LATCHKEY_SECRET_KEY: "", LATCHKEY_CONFIG: path, [name]: value },
    files: { [path]: "environments: [{ name: prod }]" },
  });
  const { environments: all } = await environments.listEnvironments({});
  expect(all.map((one) => one.name)).toEqual(["dev", "prod"]);
});

it("W21 takes another secret from a changed file, beside which the former signs", async () => {
  const pins = { A: first, B: second };
  const { running, shown } = await start({
    env: { ...pins, LATCHKEY_CONFIG: path },
    files: { [path]: ofProd("{ env: A }") },
  });
  expect(await shown("prod")).toEqual([first]);
  await reload(running, ofProd("{ env: B }"), pins);
  expect(await shown("prod")).toEqual([second, first]);
  await reload(running, ofProd("[{ env: B }, { env: NONE }]"), pins);
  expect(await running.metric("latchkey_config_rejected")).toBe(1);
  expect(await shown("prod")).toEqual([second, first]);

  const again = await start({
    folder: join(running.folder, "other"),
    env: { ...pins, LATCHKEY_CONFIG: path },
    files: { [path]: ofProd("[{ env: B }, { env: A }]") },
  });
  expect(await again.shown("prod")).toEqual([second, first]);
});
