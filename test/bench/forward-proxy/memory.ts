import { Session } from "node:inspector/promises";
import { makeAuthority } from "../../../src/base/certificates/authority.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { createHostCertificates } from "../../../src/forward-proxy/leafs.ts";

const hosts = 10_000;

/** Makes certificates for many hosts, as the forward proxy does, and prints what they take. */
export async function certificateMemory(): Promise<void> {
  const authority = await makeAuthority("bench", Date.now());
  const world = { now: Date.now, metrics: createMetrics() };
  const certificates = createHostCertificates({ authority: () => authority, world });
  const make = (host: string) => certificates.of(host, `https://${host}`);
  await make("warm.example.com");
  const before = await memory();
  const since = performance.now();
  for (let at = 0; at < hosts; at += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, i) => make(`host-${at + i}.example.com`)));
  }
  const ms = performance.now() - since;
  const used = ((await memory()) - before) / 1_048_576;
  process.stdout.write(
    `certificates of ${hosts} hosts: ${used.toFixed(1)} MiB, ${((ms / hosts) * 1_000).toFixed(0)} µs each\n`,
  );
}

/** Live memory, after a collection. */
async function memory(): Promise<number> {
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage");
  session.disconnect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
