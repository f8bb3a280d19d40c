/** A store's folder that cannot be written to. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch } from "../../support/sidecar/process.ts";

/** A small disk with a store on it, or none, that is then remounted. */
async function readOnlyDisk({ hasStore }: { readonly hasStore: boolean }): Promise<string> {
  const folder = await temporaryFolder();
  const mount = (...options: string[]) => expect(spawnSync("mount", options).status).toBe(0);
  mount("-t", "tmpfs", "-o", "size=200m,mode=700", "tmpfs", folder);
  onTestFinished(() => void spawnSync("umount", ["-l", folder]));
  if (hasStore) await (await startTestSidecar({ folder })).stop();
  mount("-o", "remount,ro", folder);
  return folder;
}

const sentence = /read-only file system/;

it.skipIf(lacks("tmpfs")).each([true, false])(
  "a start fails with one sentence (a store exists: %s)",
  async (hasStore) => {
    const folder = await readOnlyDisk({ hasStore });
    const refused = launch(["serve"], { folder });
    expect(await refused.exited).toBe(1);
    const said = `${refused.stdout()}${refused.stderr()}`;
    expect(said).toMatch(sentence);
    expect(said).toContain(folder);
    expect(said).not.toMatch(/ {4}at |node:internal|"stack"/);
  },
);

it.skipIf(lacks("tmpfs"))("a start that would make key files is refused in one sentence", async () => {
  const folder = await readOnlyDisk({ hasStore: false });
  const refused = launch(["serve"], { folder, env: { LATCHKEY_SECRET_KEY: undefined, LATCHKEY_ADMIN_KEY: undefined } });
  expect(await refused.exited).toBe(1);
  const said = `${refused.stdout()}${refused.stderr()}`;
  expect(said).toMatch(sentence);
  expect(said).not.toMatch(/ {4}at |node:internal|"stack"/);
});

it.skipIf(lacks("tmpfs"))("a move to it fails, and says why", async () => {
  const to = await readOnlyDisk({ hasStore: false });
  const from = await temporaryFolder();
  await (await startTestSidecar({ folder: from })).stop();
  const before = readdirSync(join(from, "store")).length;
  const refused = launch(["store", "move", "--from", `level:${from}`, "--to", `level:${join(to, "new")}`], {
    folder: from,
  });
  expect(await refused.exited).not.toBe(0);
  expect(refused.stderr()).toMatch(sentence);
  expect(refused.stderr()).not.toMatch(/ {4}at |node:internal/);
  expect(readdirSync(join(from, "store")).length).toBeGreaterThanOrEqual(before);
});

it.skipIf(process.platform !== "linux")("a start fails at once where no folder can be created", async () => {
  const refused = launch(["serve"], {
    folder: await temporaryFolder(),
    env: { LATCHKEY_STORE: "level:/proc/latchkey/store" },
  });
  expect(await refused.exited).toBe(1);
  const said = `${refused.stdout()}${refused.stderr()}`;
  expect(said).toContain("/proc/latchkey could not be created");
  expect(said).not.toMatch(/ {4}at |node:internal|"stack"/);
});

it.skipIf(process.platform !== "linux").each(["serve", "dev"])(
  "a start without keys fails at once where no folder can be created (%s)",
  async (command) => {
    const { exited, stderr } = launch([command, ...(command === "dev" ? ["--sandbox", ":0"] : [])], {
      folder: await temporaryFolder(),
      env: { LATCHKEY_STORE: "level:/proc/latchkey", LATCHKEY_ADMIN_KEY: undefined, LATCHKEY_SECRET_KEY: undefined },
    });
    expect(await exited).toBe(1);
    expect(stderr()).toContain("Latchkey cannot start: the key file /proc/latchkey/");
    expect(stderr()).toContain("/proc/latchkey could not be created");
  },
);
