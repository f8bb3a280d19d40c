import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startLimitedProvider } from "../../support/peers/limited-provider.ts";
import { connectLimited, limitedSettings, offerLoad } from "../../support/peers/offered-load.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

/** A provider with a limit of 100 requests a second, behind three replicas that are offered ten times as many. */
export async function quota(seconds: number): Promise<void> {
  const server = await startPostgres();
  const provider = await startLimitedProvider();
  await withFolder(async (folder) => {
    const { allowPrivate, file } = limitedSettings(provider);
    const config = join(folder, "latchkey.yaml");
    await writeFile(config, file, { mode: 0o600 });
    const env = {
      LATCHKEY_STORE: server.storeUrl("quota"),
      LATCHKEY_ALLOW_PRIVATE: allowPrivate,
      LATCHKEY_CONFIG: config,
      LATCHKEY_ADMIN_KEY: "lk_bench-admin-key-of-the-control-plane",
    };
    const replicas = await Promise.all([1, 2, 3].map(() => startBenchSidecar({ folder, env })));
    const [first] = replicas;
    if (first === undefined) throw new Error("none started");
    await connectLimited({ data: first.data, key: secretKey });
    const result = await offerLoad({
      ...{ key: secretKey, replicas, provider, warmUpMs: 5_000 },
      ...{ lengthMs: (seconds || 30) * 1_000, background: 970, interactive: 30 },
    });
    const { passed, refusedPart, interactiveP99Ms, interactiveRefused } = result;
    console.log(
      `passed: ${passed.toFixed(1)} of 100 a second; refused by the provider: ${(refusedPart * 100).toFixed(3)} %`,
    );
    console.log(`interactive: p99 ${interactiveP99Ms.toFixed(0)} ms, ${interactiveRefused} refused`);
    await Promise.all(replicas.map((one) => one.stop()));
  });
  await provider.close();
  await server.stop();
}
