import { spawnSync } from "node:child_process";
import { ms, quantile, startBenchSidecar, withFolder } from "./sidecar-process.ts";

/** From nothing to ready, over an empty store, beside a Node that starts and does nothing. */
export async function start(count: number): Promise<void> {
  const sidecar: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < (count || 15); round += 1) {
    await withFolder(async (folder) => {
      const running = await startBenchSidecar({ folder });
      sidecar.push(running.readyMs);
      await running.stop();
    });
    const since = performance.now();
    spawnSync(process.execPath, ["-e", "0"]);
    bare.push(performance.now() - since);
  }
  for (const [name, times] of [
    ["empty sidecar, start to ready", sidecar],
    ["node -e 0", bare],
  ] as const) {
    const sorted = times.toSorted((a, b) => a - b);
    process.stdout.write(`${name}: median ${ms(quantile(sorted, 0.5))}, worst ${ms(quantile(sorted, 1))}\n`);
  }
}
