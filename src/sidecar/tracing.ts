import type { Tracing } from "../base/tracing.ts";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";

/** Loads the tracing module only when tracing is configured. */
export async function openTracing({ tracing }: Config, world: World): Promise<Tracing | undefined> {
  if (tracing === undefined) return undefined;
  const { createTracing } = await import("../tracing/tracing.ts");
  return createTracing(tracing, world);
}
