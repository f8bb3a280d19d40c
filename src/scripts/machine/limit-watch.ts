import type { ScriptLimits } from "../../core/scripts/script.ts";
import type { RawFailure } from "../messages.ts";
import { createBusyClock } from "./busy-clock.ts";

/** Watches the limits of a run. Once one of them is exceeded, nothing inside continues. */
export interface LimitWatch {
  /** The first exceeded limit, or another failure that ends the run. */
  readonly exceeded: RawFailure | undefined;
  readonly stop: StopRun;
  /** The machine starts to run: its CPU time until it waits is limited. */
  enter(): void;
  /** Checks the clocks; returns true if the run must stop. */
  mustStop(): boolean;
  /** Counts a call from the machine to its host, of any kind. */
  countCall(): void;
}

/** Ends the run with a failure. Only the first one counts. */
export type StopRun = (code: RawFailure["code"], message: string, stack?: string) => void;

/** Maximum number of calls from a machine to its host. */
const maxHostCalls = 10_000_000;

export function createLimitWatch({ busyMs, deadlineMs }: Pick<ScriptLimits, "busyMs" | "deadlineMs">): LimitWatch {
  const began = performance.now();
  const busy = createBusyClock();
  let hostCalls = 0;
  let exceeded: RawFailure | undefined;

  const stop: StopRun = (code, message, stack = "") => {
    exceeded ??= { code, message, stack };
  };

  return {
    get exceeded() {
      return exceeded;
    },
    stop,
    enter: busy.enter,
    mustStop() {
      if (exceeded !== undefined) return true;
      if (busy.ms > busyMs) stop("busy", `used ${busyMs} ms of CPU time without waiting for anything`);
      else if (performance.now() - began > deadlineMs) stop("deadline", `took longer than ${deadlineMs} ms`);
      return exceeded !== undefined;
    },
    countCall() {
      hostCalls += 1;
      if (hostCalls > maxHostCalls) stop("tool_calls", "made too many internal calls");
    },
  };
}
