import type { Tracing } from "../base/tracing.ts";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";

/**
 * Minimum time to export spans at the end: requests that used up the whole grace period are the ones that operators
 * will look up.
 */
const minSpanFlushMs = 500;

/** Loads the tracing module only when tracing is configured. */
export async function openTracing(
  { tracing: config }: Pick<Config, "tracing">,
  world: World,
): Promise<Tracing | undefined> {
  if (config === undefined) return undefined;
  const { createTracing } = await import("../tracing/tracing.ts");
  const tracing = createTracing(config, world);
  return { ...tracing, close: (withinMs) => tracing.close(Math.max(minSpanFlushMs, withinMs)) };
}
