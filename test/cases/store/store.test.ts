import { spawnSync } from "node:child_process";
import { readdirSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import {
  createIntegrations,
  keyedConnection,
  secretKey,
  startTestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch, type Running, serveInProcess } from "../../support/sidecar/process.ts";

const ready = async (running: Running) => (await fetch(`${running.address("ops")}/readyz`)).status;

it("S02 refuses a second process on the same folder, naming the first, however often it is tried", async () => {
  const folder = await temporaryFolder();
  const first = await serveInProcess({ folder });
  for (const spelling of [folder, `${folder}/`, `${folder}/../${folder.split("/").at(-1)}`]) {
    const second = launch(["serve"], { folder, env: { LATCHKEY_STORE: `level:${spelling}` } });
    expect(await second.exited).toBe(1);
    expect(second.stdout()).toContain(`in use by process ${first.child.pid}`);
  }
  expect(await ready(first)).toBe(200);
  first.child.kill("SIGKILL");
  await first.exited;
  // A killed process does not block the next.
  expect(await ready(await serveInProcess({ folder }))).toBe(200);
});

it("S02 refuses a second process while the first is stopped, and cannot answer", async () => {
  const folder = await temporaryFolder();
  const first = await serveInProcess({ folder });
  first.child.kill("SIGSTOP");
  const second = launch(["serve"], { folder });
  expect(await second.exited).toBe(1);
  expect(second.stdout()).toMatch(/in use by a process that does not answer/);
  first.child.kill("SIGCONT");
  expect(await ready(first)).toBe(200);
});

it("S13 keeps its folder and files private, whatever the umask", async () => {
  const folder = await temporaryFolder();
  await serveInProcess({ folder });
  expect(statSync(join(folder, "store")).mode & 0o777).toBe(0o700);
  const modes = readdirSync(join(folder, "store")).map((name) => {
    return `${name} ${(statSync(join(folder, "store", name)).mode & 0o077).toString(8)}`;
  });
  expect(modes.filter((mode) => !mode.endsWith(" 0"))).toEqual([]);
});

async function smallDisk(size: string): Promise<string> {
  const folder = await temporaryFolder();
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${size},mode=700`, "tmpfs", folder]);
  if (status !== 0) throw new Error("the small disk could not be mounted");
  onTestFinished(() => void spawnSync("umount", ["-l", folder]));
  return folder;
}

function fillUp(folder: string, leave: number): string {
  const { bavail, bsize } = statfsSync(folder);
  const filler = join(folder, "filler");
  writeFileSync(filler, Buffer.alloc(bavail * bsize - leave));
  return filler;
}

it.skipIf(lacks("tmpfs"))(
  "S07 stops before the disk is full, reports it, and continues when there is room again",
  async () => {
    const folder = await smallDisk("40m");
    const running = await startTestSidecar({ folder });
    await createIntegrations(running);
    const write = (id: string) => running.rest("POST", "/connections", { body: keyedConnection(id) });
    expect((await write("before")).status).toBe(201);
    const filler = fillUp(folder, 1_000_000);
    await expect.poll(async () => (await write("refused")).status, { interval: 50 }).toBe(503);
    const readyz = await fetch(`${running.ops}/readyz`);
    expect(readyz.status).toBe(503);
    expect(await readyz.text()).toMatch(/the disk has \d\.\d MiB left; at least 2\.\d must stay free/);
    expect((await running.rest("GET", "/connections/before?provider_config_key=keyed")).status).toBe(200);
    rmSync(filler);
    await expect.poll(async () => (await write("after")).status, { interval: 50 }).toBe(201);
    // The store stayed open.
    expect(running.logged.some((line) => line.includes("stopped after a write error"))).toBe(false);
  },
);

it.skipIf(lacks("tmpfs"))("S08 waits for room when the disk is full at start, unready and saying why", async () => {
  const folder = await smallDisk("24m");
  const first = await serveInProcess({ folder });
  await furnishOverHttp(first);
  first.child.kill("SIGKILL");
  await first.exited;
  const filler = fillUp(folder, 4_096);

  const again = launch(["serve"], { folder });
  await again.says("the store cannot be opened yet");
  const readyz = await fetch(`${again.address("ops")}/readyz`);
  expect(readyz.status).toBe(503);
  expect(await readyz.text()).toMatch(/starting: the disk has \d+ bytes left/);
  expect((await fetch(`${again.address("ops")}/livez`)).status).toBe(200);
  await sleep(2_500);
  // Logged once, and not with every attempt.
  expect(again.stdout().split("cannot be opened yet")).toHaveLength(2);
  rmSync(filler);
  await again.says('"phase":"ready"');
  const answer = await fetch(`${again.address("data")}/integrations/keyed`, {
    headers: { authorization: `Bearer ${secretKey}` },
  });
  expect(answer.status).toBe(200);
});

it.skipIf(lacks("tmpfs"))("S08 can be stopped while it waits", async () => {
  const folder = await smallDisk("24m");
  const first = await serveInProcess({ folder });
  await furnishOverHttp(first);
  first.child.kill("SIGKILL");
  await first.exited;
  fillUp(folder, 4_096);
  const again = launch(["serve"], { folder });
  await again.says("the store cannot be opened yet");
  again.child.kill("SIGTERM");
  expect(await again.exited).toBe(0);
});

async function furnishOverHttp(running: Running): Promise<void> {
  const answer = await fetch(`${running.address("data")}/integrations`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: JSON.stringify({ unique_key: "keyed", provider: "example-api-key" }),
  });
  expect(answer.status).toBe(200);
}
