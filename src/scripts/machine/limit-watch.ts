import type { ScriptLimits } from "../../core/scripts/script.ts";
import type { RawFailure } from "../messages.ts";

/** Watches the limits of a run. Once one of them is exceeded, nothing inside continues. */
export interface LimitWatch {
  /** The first exceeded limit, or another failure that ends the run. */
  readonly exceeded: RawFailure | undefined;
  readonly stop: StopRun;
  /** The machine starts to run: the time until it waits is limited. */
  enter(): void;
  /** Checks the clock; returns true if the run must stop. */
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
  let enteredAt = 0;
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
    enter() {
      enteredAt = performance.now();
    },
    mustStop() {
      if (exceeded !== undefined) return true;
      const at = performance.now();
      if (at - enteredAt > busyMs) stop("busy", `ran for ${busyMs} ms without waiting for anything`);
      else if (at - began > deadlineMs) stop("deadline", `took longer than ${deadlineMs} ms`);
      return exceeded !== undefined;
    },
    countCall() {
      hostCalls += 1;
      if (hostCalls > maxHostCalls) stop("tool_calls", "made too many internal calls");
    },
  };
}
