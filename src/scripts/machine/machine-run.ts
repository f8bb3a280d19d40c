import type { ScriptLimits, ScriptLine } from "../../core/scripts/script.ts";
import type { RawFailure, ToolCall } from "../messages.ts";
import { clipped } from "./clipped.ts";
import type { Engine, Machine, MachineHost, Picture } from "./engine.ts";
import { hostFunctions } from "./host-functions.ts";
import { createLimitWatch, type StopRun } from "./limit-watch.ts";
import { MachineError } from "./machine-values.ts";
import { createRunOutput } from "./run-output.ts";
import { createRunTimers } from "./run-timers.ts";

/** A run in a machine of its own, whose limits are enforced from outside. */
export interface MachineRun {
  begin(start: string): void;
  answer(call: string, text: string): void;
  /** Ends the run, whatever it is doing. */
  drop(): void;
}

export interface RunEvents {
  /** Called before and after each time the machine runs on the thread. */
  entered(): void;
  left(): void;
  calls(calls: readonly ToolCall[]): void;
  lines(lines: readonly ScriptLine[]): void;
  done(text: string): void;
  failed(failure: RawFailure): void;
}

interface MachineRunOptions {
  readonly engine: Engine;
  readonly picture: Picture;
  readonly limits: ScriptLimits;
  readonly events: RunEvents;
}

export async function openRun({ engine, picture, limits, events }: MachineRunOptions): Promise<MachineRun> {
  const watch = createLimitWatch(limits);
  const output = createRunOutput(limits, watch.stop, events);
  const timers = createRunTimers(watch.stop, (id) => run(() => machine.enter("fire", id, "")));
  let [isOver, isInside] = [false, false];

  const operations: Readonly<Record<string, (a: string, b: string) => string | undefined>> = {
    ...hostFunctions,
    call: output.call,
    log: output.log,
    "log-full": output.logFull,
    timer: timers.set,
    untimer: timers.clear,
    end(how, text) {
      if (Buffer.byteLength(text) > limits.outputBytes && how === "done") {
        watch.stop("output_too_large", `the output is larger than ${limits.outputBytes} bytes`);
        return undefined;
      }
      output.flush();
      finish();
      if (how === "done") events.done(text);
      else events.failed(failureIn(text, machine, limits));
      return undefined;
    },
  };

  const outside: MachineHost = {
    called(op, a, b) {
      watch.countCall();
      if (watch.exceeded !== undefined || isOver) return undefined;
      try {
        return operations[op]?.(a, b);
      } catch (error) {
        // Text that the sandbox never writes: the script has changed the sandbox.
        const why = error instanceof Error ? error.message : "";
        watch.stop("script_error", `the script has changed its built-in functions: ${why}`);
        return undefined;
      }
    },
    mustStop: () => isOver || watch.mustStop(),
  };

  const machine = await engine.restore(picture, limits, outside);
  const deadline = setTimeout(() => {
    watch.stop("deadline", `took longer than ${limits.deadlineMs} ms`);
    endIfExceeded();
  }, limits.deadlineMs);

  function finish(): void {
    isOver = true;
    clearTimeout(deadline);
    timers.clearAll();
    // If the run ends from inside, the machine still runs for a moment, and is released later.
    if (!isInside) machine.release();
  }

  /** Returns true if the run is over. */
  function endIfExceeded(): boolean {
    if (isOver || watch.exceeded === undefined) return isOver;
    output.flushLines();
    finish();
    events.failed(watch.exceeded);
    return true;
  }

  /** Runs the machine until it waits. */
  function run(step: () => void): void {
    if (isOver) return;
    watch.enter();
    isInside = true;
    events.entered();
    try {
      step();
      while (!isOver && !outside.mustStop() && machine.settle()) {
        // Continues while promise jobs are pending.
      }
    } catch (error) {
      stopAfter(error, machine, limits, watch.stop);
    }
    events.left();
    isInside = false;
    if (isOver) machine.release();
    if (isOver || endIfExceeded()) return;
    output.flush();
    if (output.pendingCalls === 0 && timers.count === 0) {
      stopStalled(machine, limits, watch.stop);
      endIfExceeded();
    }
  }

  return {
    begin: (start) => run(() => machine.enter("start", start, "")),
    answer(call, text) {
      output.answered();
      run(() => machine.enter("answer", call, text));
    },
    drop: finish,
  };
}

/** Reads the failure that the sandbox reports. A machine without any memory cannot create its error, and throws null. */
function failureIn(text: string, machine: Machine, limits: ScriptLimits): RawFailure {
  const failure = JSON.parse(clipped(text, limits.outputBytes * 2)) as RawFailure;
  if (failure.message !== "null" || !machine.lacksMemory()) return failure;
  return { code: "memory", message: memoryMessage(limits), stack: failure.stack };
}

/** Ends a run that waits although no call is pending and no timer is set. */
function stopStalled(machine: Machine, limits: ScriptLimits, stop: StopRun): void {
  if (machine.lacksMemory()) stop("memory", memoryMessage(limits));
  stop("script_error", "the script waits for a promise that can never settle: no call or timer is pending");
}

/** Handles an error from a machine: of the script, or of the machine itself. */
function stopAfter(error: unknown, machine: Machine, limits: ScriptLimits, stop: StopRun): void {
  if (error instanceof MachineError) {
    stop(error.message.includes("out of memory") ? "memory" : "script_error", error.message, error.inner);
  } else if (error instanceof RangeError) stop("script_error", "too many nested calls");
  else if (machine.lacksMemory()) stop("memory", memoryMessage(limits));
  else stop("host_error", `the script engine failed: ${error instanceof Error ? error.message : "unknown error"}`);
}

const memoryMessage = ({ memoryBytes }: ScriptLimits): string => `needed more than ${memoryBytes} bytes of memory`;
