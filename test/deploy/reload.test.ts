import { chmod, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { launch, type Running, serveInProcess } from "../support/sidecar/process.ts";
import { project } from "./projected.ts";

const noticed = { timeout: 30_000, interval: 100 };

const configuration = (folder: string, more = "") => `
environments:
  - name: prod
    keys: [{ id: app, key: { file: ${join(folder, "app-key")} }, scopes: [connections:read] }]
${more}`;

async function statusWith(running: Running, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` };
  return (await fetch(`${running.address("data")}/connections`, { headers })).status;
}

async function start() {
  const root = await temporaryFolder();
  const secrets = await project(join(root, "secrets"), { "app-key": "lk_first-key-of-the-application\n" });
  const config = await project(join(root, "config"), { "latchkey.yaml": configuration(secrets.folder) });
  const running = await serveInProcess({
    folder: join(root, "store"),
    env: { LATCHKEY_CONFIG: join(config.folder, "latchkey.yaml"), LATCHKEY_SECRET_KEY: undefined },
  });
  return { running, secrets, config };
}

it("applies a ConfigMap that was changed: the link under it is swapped, and the file itself never written", async () => {
  const { running, secrets, config } = await start();
  expect(await statusWith(running, "lk_first-key-of-the-application")).toBe(200);
  for (const name of ["staging", "testing"]) {
    await config.swap({ "latchkey.yaml": configuration(secrets.folder, `  - name: ${name}\n`) });
    const applied = () => running.stdout().split("the configuration file was applied").length - 1;
    await expect.poll(applied, noticed).toBe(name === "staging" ? 1 : 2);
  }
  const metrics = await (await fetch(`${running.address("ops")}/metrics`)).text();
  expect(metrics).toMatch(/^latchkey_config_rejected 0$/m);
});

it("applies a rotated key of a Secret, although the configuration file is unchanged", async () => {
  const { running, secrets } = await start();
  // Longer than the watcher needs after the start.
  await sleep(500);
  await secrets.swap({ "app-key": "lk_second-key-of-the-application\n" });
  await expect.poll(() => statusWith(running, "lk_second-key-of-the-application"), noticed).toBe(200);
  expect(await statusWith(running, "lk_first-key-of-the-application")).toBe(401);
});

it("watches a refused secret's file, and applies its correction", async () => {
  const { running, secrets, config } = await start();
  await secrets.swap({ "app-key": "lk_first-key-of-the-application\n", other: "lk_another-key-of-the-application\n" });
  await chmod(join(secrets.folder, "..data", "other"), 0o444);
  const more = `  - name: other
    keys: [{ id: other-app, key: { file: ${join(secrets.folder, "..data", "other")} }, scopes: [connections:read] }]
`;
  await config.swap({ "latchkey.yaml": configuration(secrets.folder, more) });
  await running.says("the configuration file was rejected");
  expect(await statusWith(running, "lk_another-key-of-the-application")).toBe(401);
  await sleep(100);
  await chmod(join(secrets.folder, "..data", "other"), 0o440);
  await expect.poll(() => statusWith(running, "lk_another-key-of-the-application"), noticed).toBe(200);
});

it("applies changes made during the start", async () => {
  const root = await temporaryFolder();
  const secrets = await project(join(root, "secrets"), { "app-key": "lk_first-key-of-the-application\n" });
  const config = await project(join(root, "config"), { "latchkey.yaml": configuration(secrets.folder) });
  const running = launch(["serve"], {
    folder: join(root, "store"),
    env: { LATCHKEY_CONFIG: join(config.folder, "latchkey.yaml"), LATCHKEY_SECRET_KEY: undefined },
  });
  // The configuration has been read by then, and nothing watches it yet.
  await running.says('"door":"ops"');
  await secrets.swap({ "app-key": "lk_second-key-of-the-application\n" });
  await running.says('"phase":"ready"');
  await expect.poll(() => statusWith(running, "lk_second-key-of-the-application"), noticed).toBe(200);
});

it("opens a store whose folder a volume's mount has opened to the pod's group", async () => {
  const root = await temporaryFolder();
  const first = await serveInProcess({ folder: join(root, "store") });
  first.child.kill("SIGTERM");
  await first.exited;
  // The kubelet does this for `fsGroup`.
  const made = await readdir(join(root, "store"), { recursive: true });
  for (const path of ["", ...made].map((one) => join(root, "store", one))) {
    const { mode } = await stat(path);
    await chmod(path, (mode & 0o170000) === 0o040000 ? 0o2770 : 0o660);
  }
  await serveInProcess({ folder: join(root, "store") });
  expect((await stat(join(root, "store/store"))).mode & 0o7777).toBe(0o700);
});
