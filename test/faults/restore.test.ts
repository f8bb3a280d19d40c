/** The power fails at the moment a restore has written everything. disk.c defines a power loss. */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { writeBackup } from "../../src/store/backup/backup.ts";
import { openLevelStore } from "../../src/store/level/level.ts";
import { seeded } from "../support/runner/seeded.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { launch } from "../support/sidecar/process.ts";
import { createFaultyDisk } from "./disk.ts";
import { useDiskShim } from "./shim.ts";

const pageEntries = 250;

/** A kilobyte each. */
async function writeBackupOf(count: number, file: string): Promise<void> {
  async function* pages() {
    for (let at = 0; at < count; at += pageEntries) {
      yield Array.from({ length: pageEntries }, (_, i) => {
        return { key: `k${String(at + i).padStart(8, "0")}`, value: randomBytes(1_000), revision: 1 };
      });
    }
  }
  const snapshot = { revision: 1, pages, close: async () => {} };
  const chunks: Uint8Array[] = [];
  for await (const piece of writeBackup(snapshot, { storeId: "of a test", format: 2, createdMs: 0 })) {
    if (piece.case === "chunk") chunks.push(piece.value);
  }
  await writeFile(file, chunks);
}

async function countIn(folder: string): Promise<number> {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const store = await openLevelStore({ folder, log, metrics: createMetrics(), create: false });
  const snapshot = await store.snapshot();
  let count = 0;
  for await (const page of snapshot.pages()) count += page.length;
  await snapshot.close();
  await store.close();
  return count;
}

describe.skipIf(lacks("compiler"))("a power loss behind a restore", () => {
  const shim = useDiskShim();

  // A little more than LevelDB's log takes before it begins the next: of the first, all must be on the disk by then.
  it.each([16_000, 16_500])("S09 loses nothing of %i entries that the store reports", async (count) => {
    const folder = await temporaryFolder();
    const file = join(folder, "backup");
    await writeBackupOf(count, file);
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const running = launch(["store", "restore", file, "--to", `level:${folder}`], { folder, env: disk.env });
    await running.says(`reading level:${folder} again`);
    running.child.kill("SIGKILL");
    await running.exited;
    disk.losePower({ random: seeded(count), names: "own", unsynced: "gone" });
    expect(await countIn(join(folder, "store"))).toBe(count);
  });
});
