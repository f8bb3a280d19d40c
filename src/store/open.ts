import { join } from "node:path";
import type { Log } from "../base/log.ts";
import type { Metrics } from "../base/metrics/metrics.ts";
import type { Backend } from "./contract.ts";
import { openLevelStore } from "./level/level.ts";
import type { StoreLocation } from "./location.ts";

interface BackendOptions {
  readonly log: Log;
  readonly metrics: Metrics;
  /** Creates the store if there is none; default: true. */
  readonly create?: boolean;
}

/** Opens the store at this location. Loads only the driver in use. */
export async function openBackend(location: StoreLocation, options: BackendOptions): Promise<Backend> {
  if (location.kind === "level") {
    // The folder also holds the keys created with the store.
    return openLevelStore({ folder: join(location.folder, "store"), ...options });
  }
  const { openPostgresStore } = await import("./postgres/postgres.ts");
  return openPostgresStore({ url: location.url, ...options });
}
