/**
 * A latchkey in its own process, with the lease times of REFRESH_LEASE_MS and DELIVERY_LEASE_MS, and a wall clock that
 * is off by CLOCK_OFFSET_MS plus the numbers that its parent sends.
 */
import { readFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { parseConfig } from "../../src/config/config.ts";
import { startSidecar } from "../../src/sidecar.ts";

// Like main.ts: a store warns of files that others can read.
process.umask(0o077);

const { REFRESH_LEASE_MS, DELIVERY_LEASE_MS, CLOCK_OFFSET_MS, ...env } = process.env;
let offsetMs = Number(CLOCK_OFFSET_MS ?? 0);
process.on("message", (wanted) => {
  offsetMs = Number(wanted);
});
const given = (ms: string | undefined): number | undefined => (ms === undefined ? undefined : Number(ms));
const read = (path: string) => ({ text: readFileSync(path, "utf8"), mode: 0o600 });
const config = parseConfig({ env, files: { read } });
const log = createLog({ level: "info", format: "json", write: (line) => void process.stdout.write(line) });
const world = { now: () => Date.now() + offsetMs, log, metrics: createMetrics() };
const sidecar = await startSidecar(config, world, {
  refreshLeaseMs: given(REFRESH_LEASE_MS),
  workTermMs: given(DELIVERY_LEASE_MS),
});
// It may be killed at any time: the next one starts faster nevertheless.
flushCompileCache();
process.once("SIGTERM", () => void sidecar.stop().then(() => process.exit(0)));
