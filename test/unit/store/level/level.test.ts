import { chmod, mkdtemp, readdir, readlink, rm, stat, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
import { createOpenFiles } from "../../../../src/store/level/open-files.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";
import { carries } from "../above.ts";
import { conforms } from "../conformance.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });

async function prepare() {
  const parent = await mkdtemp(join(tmpdir(), "latchkey-store-"));
  return {
    open: () => openLevelStore({ folder: join(parent, "store"), log, metrics: createMetrics() }),
    clear: () => rm(parent, { recursive: true }),
  };
}

conforms("level", prepare);
// Only one process can open it: the second replica is the first.
carries("level", async () => ({ ...(await prepare()), openAnother: async (first) => first }));

it("creates a private folder, and refuses one that is open to others", async () => {
  const folder = join(await temporaryFolder(), "store");
  const store = await openLevelStore({ folder, log, metrics: createMetrics() });
  await store.close();
  expect((await stat(folder)).mode & 0o777).toBe(0o700);

  await chmod(folder, 0o755);
  await expect(openLevelStore({ folder, log, metrics: createMetrics() })).rejects.toThrow(/mode 755/);
});

it("writes commits that come together with one fsync, and acknowledges each", async () => {
  const metrics = createMetrics();
  const store = await openLevelStore({ folder: join(await temporaryFolder(), "store"), log, metrics });
  const revisions = await Promise.all(
    Array.from({ length: 500 }, (_, i) => store.commit([{ key: `k${i}`, value: new Uint8Array([1]) }])),
  );
  expect(new Set(revisions).size).toBe(500);
  expect((await metrics.storeCommits.get()).values[0]?.value).toBe(500);
  await store.close();
});

it.runIf(process.platform === "linux")("frees the space of a deleted log in another thread", async () => {
  const folder = await temporaryFolder();
  const files = createOpenFiles({ folder, log });
  const name = join(folder, "000003.log");
  await writeFile(name, "log");
  await writeFile(join(folder, "000004.ldb"), "a small table");
  await files.check();
  expect(await openedIn(folder)).toEqual([name]);
  await unlink(name);
  expect(await openedIn(folder)).toEqual([`${name} (deleted)`]);
  await files.check();
  expect(await openedIn(folder)).toEqual([]);
  await files.close();
});

it.runIf(process.platform === "linux")("keeps its log open beside LevelDB", async () => {
  const folder = join(await temporaryFolder(), "store");
  const store = await openLevelStore({ folder, log, metrics: createMetrics() });
  const logs = async () => (await openedIn(folder)).filter((name) => name.endsWith(".log")).length;
  await expect.poll(logs, { timeout: 20_000 }).toBe(2);
  await store.close();
  expect(await logs()).toBe(0);
});

/** Returns the files of a folder that this process has open. */
async function openedIn(folder: string): Promise<string[]> {
  const descriptors = await readdir("/proc/self/fd");
  const names = await Promise.all(descriptors.map((one) => readlink(`/proc/self/fd/${one}`).catch(() => "")));
  return names.filter((name) => name.startsWith(folder));
}
