import type { World } from "../base/world.ts";
import { usualRunLimits } from "../broker/syncs/runs/run-scheduler.ts";
import type { Config } from "../config/config.ts";
import { noScripts, type ScriptHost } from "../core/scripts/script.ts";
import { isOwnPath } from "../data-plane/server/own-paths.ts";

/** Loads the script engine only when there are scripts, because it is a large module. */
export async function openScripts({ scriptsFolder, scripts }: Config, world: World): Promise<ScriptHost> {
  if (scriptsFolder === undefined) return noScripts;
  const { createScriptHost } = await import("../scripts/host.ts");
  // A lower limit for scheduled runs does not reduce the runs that a caller waits for.
  const runsAtOnce = Math.max(scripts.runs, usualRunLimits.atOnce);
  const { threads } = scripts;
  const { memoryBytes } = scripts.limits;
  return createScriptHost({ folder: scriptsFolder, world, isOwnPath, limits: { threads, runsAtOnce, memoryBytes } });
}
