import { usualRunLimits } from "../broker/syncs/runs/run-scheduler.ts";
import { millisecondsIn } from "../core/duration.ts";
import { type ScriptLimits, usualScriptLimits } from "../core/scripts/script.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";

/** Limits of scripts: for each run and for all together. */
export interface ScriptsConfig {
  /** Worker threads. */
  readonly threads: number;
  /** Maximum number of scheduled runs at once in each replica. */
  readonly runs: number;
  readonly runsPerIntegration: number;
  /** Limits of each run. */
  readonly limits: ScriptLimits;
}

export const defaultScripts: ScriptsConfig = {
  threads: 1,
  runs: usualRunLimits.atOnce,
  runsPerIntegration: usualRunLimits.atOncePerIntegration,
  limits: usualScriptLimits,
};

const bounds = {
  deadline: { leastMs: 1_000, mostMs: 86_400_000, message: "must be from 1s to 24h" },
  busy: { leastMs: 100, mostMs: 300_000, message: "must be from 100ms to 5m" },
} as const;

export function scriptsOf({ file: { scripts = {} }, refuse }: { file: ConfigFile; refuse: Refuse }): ScriptsConfig {
  function time(name: keyof typeof bounds, fallback: number): number {
    const ms = millisecondsIn(scripts[name] ?? "") ?? fallback;
    const { leastMs, mostMs, message } = bounds[name];
    if (ms < leastMs || ms > mostMs) refuse(`scripts.${name}: ${message}`);
    return ms;
  }
  const { limits, ...usual } = defaultScripts;
  const runs = scripts.runs ?? usual.runs;
  return {
    threads: scripts.threads ?? usual.threads,
    runs,
    runsPerIntegration: scripts.runs_per_integration ?? Math.min(runs, usual.runsPerIntegration),
    limits: {
      deadlineMs: time("deadline", limits.deadlineMs),
      busyMs: time("busy", limits.busyMs),
      memoryBytes: scripts.memory_bytes ?? limits.memoryBytes,
      toolCalls: scripts.tool_calls ?? limits.toolCalls,
      toolCallsAtOnce: scripts.tool_calls_at_once ?? limits.toolCallsAtOnce,
      outputBytes: scripts.output_bytes ?? limits.outputBytes,
      logLines: scripts.log_lines ?? limits.logLines,
      logLineBytes: scripts.log_line_bytes ?? limits.logLineBytes,
    },
  };
}
