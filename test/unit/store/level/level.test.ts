import { chmod, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
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
