import { createLog, type Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Config, ConfigMistakes } from "../../config/config.ts";
import type { Process, Signal } from "./process.ts";

/** EX_CONFIG and EX_SOFTWARE of sysexits.h. */
export const configExitCode = 78;
export const softwareExitCode = 70;
export const failedExitCode = 1;

interface ProcessLogTarget {
  readonly process: Pick<Process, "stdout" | "isTerminal">;
  readonly metrics: Metrics;
}

/** Returns the log of a process that runs until it is stopped. */
export const createProcessLog = (
  { logLevel, logFormat }: Pick<Config, "logLevel" | "logFormat">,
  { process, metrics }: ProcessLogTarget,
): Log =>
  createLog({
    level: logLevel,
    format: logFormat ?? (process.isTerminal ? "pretty" : "json"),
    write(line) {
      process.stdout.write(line, (error) => {
        // Logging failed and cannot be logged: count the line and continue.
        if (error != null) metrics.logLinesLost.inc();
      });
    },
  });

/** Queues signals that arrive during the start, until they can be handled. */
export function listenForSignals(process: Process) {
  const early: Signal[] = [];
  let handler = (signal: Signal): void => void early.push(signal);
  process.onSignal((signal) => handler(signal));
  return {
    /** Aborts if a stop signal arrives before there is anything to stop. */
    abortSignal(): AbortSignal {
      const stopped = new AbortController();
      const keep = handler;
      handler = (signal) => {
        if (signal !== "SIGHUP") stopped.abort();
        keep(signal);
      };
      return stopped.signal;
    },
    handle(next: (signal: Signal) => void): void {
      handler = next;
      for (const signal of early.splice(0)) next(signal);
    },
  };
}

export function reportMistakes({ mistakes }: ConfigMistakes, { stderr }: Pick<Process, "stderr">): number {
  stderr.write(`latchkey: the configuration is not valid:\n${mistakes.map((one) => `  - ${one}\n`).join("")}`);
  return configExitCode;
}
