import type { ScriptLimits, ScriptLine } from "../../core/scripts/script.ts";
import type { ToolCall } from "../messages.ts";
import { clipped } from "./clipped.ts";
import type { StopRun } from "./limit-watch.ts";

/** The tool calls and log lines of a run, within its limits; sent on when the machine waits. */
export interface RunOutput {
  /** Calls that were not answered yet. */
  readonly pendingCalls: number;
  /** Adds a call: `about` is its id and the tool, `text` its arguments. */
  call(about: string, text: string): undefined;
  answered(): void;
  log(level: string, text: string): undefined;
  /** The sandbox has dropped lines that exceed the limit. */
  logFull(): undefined;
  flushLines(): void;
  /** Sends the lines, then the calls. */
  flush(): void;
}

interface RunOutputEvents {
  calls(calls: readonly ToolCall[]): void;
  lines(lines: readonly ScriptLine[]): void;
}

/** Size limit of a call's arguments, which the proxy's thread parses. */
export const maxCallBytes = 8 * 1_024 * 1_024;
/** Limit of logged bytes. The proxy's thread receives all of them, and keeps 32 KiB. */
const maxLoggedBytes = 1_024 * 1_024;
const levels = ["debug", "info", "warn", "error"] as const;

export function createRunOutput(limits: ScriptLimits, stop: StopRun, events: RunOutputEvents): RunOutput {
  let [calls, pendingCalls, lines, loggedBytes] = [0, 0, 0, 0];
  let unsentCalls: ToolCall[] = [];
  let unsentLines: ScriptLine[] = [];

  function noMoreLines(limit: string): undefined {
    lines = limits.logLines + 1;
    unsentLines.push({ level: "warn", message: `more than ${limit}; further lines are dropped` });
  }

  function flushLines(): void {
    if (unsentLines.length > 0) events.lines(unsentLines);
    unsentLines = [];
  }

  return {
    get pendingCalls() {
      return pendingCalls;
    },
    call(about, text) {
      calls += 1;
      pendingCalls += 1;
      if (calls > limits.toolCalls) stop("tool_calls", `made more than ${limits.toolCalls} calls`);
      // The sandbox queues calls itself; exceeding the limit here means bypassing that queue.
      else if (pendingCalls > limits.toolCallsAtOnce) {
        stop("tool_calls", `made more than ${limits.toolCallsAtOnce} calls at once`);
      } else if (text.length > maxCallBytes) stop("tool_calls", `made a call with more than ${maxCallBytes} bytes`);
      else {
        const at = about.indexOf(":");
        unsentCalls.push({ id: about.slice(0, at), tool: about.slice(at + 1), text });
      }
    },
    answered() {
      pendingCalls -= 1;
    },
    log(level, text) {
      lines += 1;
      if (lines > limits.logLines) return undefined;
      const message = clipped(String(JSON.parse(text)), limits.logLineBytes);
      loggedBytes += Buffer.byteLength(message);
      if (loggedBytes > maxLoggedBytes) return noMoreLines(`${maxLoggedBytes} bytes of lines`);
      unsentLines.push({ level: levels.find((one) => one === level) ?? "info", message });
    },
    logFull: () => (lines > limits.logLines ? undefined : noMoreLines(`${limits.logLines} lines`)),
    flushLines,
    flush() {
      flushLines();
      if (unsentCalls.length > 0) events.calls(unsentCalls);
      unsentCalls = [];
    },
  };
}
