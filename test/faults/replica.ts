/** A latchkey in a process of its own whose leases on renewals are as short as `REFRESH_LEASE_MS` says. */
import { readFileSync } from "node:fs";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { parseConfig } from "../../src/config/config.ts";
import { startSidecar } from "../../src/sidecar.ts";

const { REFRESH_LEASE_MS, ...env } = process.env;
const read = (path: string) => ({ text: readFileSync(path, "utf8"), mode: 0o600 });
const config = parseConfig({ env, files: { read } });
const log = createLog({ level: "info", format: "json", write: (line) => void process.stdout.write(line) });
const world = { now: Date.now, log, metrics: createMetrics() };
const sidecar = await startSidecar(config, world, { refreshLeaseMs: Number(REFRESH_LEASE_MS) });
process.once("SIGTERM", () => void sidecar.stop().then(() => process.exit(0)));
