import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter } from "../base/limiter.ts";
import { whenAborted } from "../base/when-aborted.ts";
import type { ScriptFailure, ScriptOutcome } from "../core/scripts/script.ts";

/**
 * Slows down scripts that exceed limits in run after run. Runs of such a script go one at a time, and each waits ten
 * times the duration of the previous run.
 */
export interface ScriptThrottle {
  readonly has: (version: string) => boolean;
  /**
   * Waits for the slot of a throttled script: resolves when its next run may start, or its caller has left, with a function that frees
   * the slot. A nested run skips the queue, since its parent may hold the slot.
   */
  waitForSlot(version: string, asked: ThrottleRequest): Promise<() => void>;
  /** Returns true if this run starts the throttling. */
  note(version: string, ran: FinishedRun): boolean;
  /** Forgets a version that was replaced. */
  forget(version: string): void;
}

interface ThrottleRequest {
  readonly signal: AbortSignal;
  readonly isNested: boolean;
}

interface FinishedRun {
  readonly outcome: ScriptOutcome;
  readonly ms: number;
}

interface Excess {
  /** Number of excesses in a row. */
  readonly times: number;
  readonly until: number;
}

/** A single excess may be due to the input. */
const minTimes = 2;
const delayFactor = 10;
const maxDelayMs = 5_000;
const excesses: ReadonlySet<ScriptFailure["code"]> = new Set(["busy", "memory", "tool_calls", "output_too_large"]);
/** These failures do not indicate a fault of the script. */
const foreign: ReadonlySet<ScriptFailure["code"]> = new Set(["cancelled", "input_required", "deadline", "host_error"]);

export function createScriptThrottle(): ScriptThrottle {
  const known = new Map<string, Excess>();
  const limiter = createLimiter(1);
  const has = (version: string) => (known.get(version)?.times ?? 0) >= minTimes;

  return {
    has,
    async waitForSlot(version, { signal, isNested }) {
      const granted = isNested ? Promise.resolve(noRelease) : limiter(version);
      const release = await Promise.race([granted, whenLeft(signal)]);
      if (release === undefined) return () => void granted.then((back) => back());
      const leftMs = (known.get(version)?.until ?? 0) - performance.now();
      // A caller that leaves ends the wait at once.
      if (leftMs > 0) await sleep(leftMs, undefined, { signal }).catch(() => undefined);
      return release;
    },
    note(version, { outcome, ms }) {
      const code = outcome.kind === "failed" ? outcome.failure.code : undefined;
      if (code !== undefined && foreign.has(code)) return false;
      if (code === undefined || !excesses.has(code)) {
        known.delete(version);
        return false;
      }
      const times = (known.get(version)?.times ?? 0) + 1;
      known.set(version, { times, until: performance.now() + Math.min(maxDelayMs, delayFactor * ms) });
      return times === minTimes;
    },
    forget: (version) => void known.delete(version),
  };
}

const noRelease = () => {};

const whenLeft = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else whenAborted(signal, () => resolve(undefined));
  });
