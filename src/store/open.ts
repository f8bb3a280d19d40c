import { join } from "node:path";
import type { Log } from "../base/log.ts";
import type { Metrics } from "../base/metrics/metrics.ts";
import type { Backend } from "./contract.ts";
import { openLevelStore } from "./level/level.ts";
import type { StoreLocation } from "./location.ts";

interface BackendOptions {
  readonly log: Log;
  readonly metrics: Metrics;
  /** Makes a store where there is none; on by default. */
  readonly create?: boolean;
}

/** Opens what lies there. A driver that is not needed is not loaded. */
export async function openBackend(location: StoreLocation, options: BackendOptions): Promise<Backend> {
  if (location.kind === "level") {
    // Beside it lie the keys that were made with it.
    return openLevelStore({ folder: join(location.folder, "store"), ...options });
  }
  const { openPostgresStore } = await import("./postgres/postgres.ts");
  return openPostgresStore({ url: location.url, ...options });
}
