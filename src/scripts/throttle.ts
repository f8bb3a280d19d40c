import { setTimeout as sleep } from "node:timers/promises";
import { createLimiter } from "../base/limiter.ts";
import { whenAborted } from "../base/when-aborted.ts";
import type { ScriptFailure, ScriptOutcome } from "../core/scripts/script.ts";

/**
 * A script that is ended for what it took, run after run, would take it anew as often as somebody asks for it. Its
 * runs go one after another then, and each waits ten times as long as the one before it took.
 */
export interface ScriptThrottle {
  readonly has: (version: string) => boolean;
  /**
   * Of one that rests: resolves when the next may begin, or nobody waits for it any more, to what lets on the one
   * behind it. One that a script waits for goes beside the others: it may be that one.
   */
  over(version: string, asked: ThrottleRequest): Promise<() => void>;
  /** Returns whether it rests from now on, and did not before. */
  note(version: string, ran: FinishedRun): boolean;
  /** There is another of that name. */
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
  /** How often in a row. */
  readonly times: number;
  readonly until: number;
}

/** Once may be what it was asked for. */
const fromTimes = 2;
const timesAsLong = 10;
const mostMs = 5_000;
const excesses: ReadonlySet<ScriptFailure["code"]> = new Set(["busy", "memory", "tool_calls", "output_too_large"]);
/** These say nothing of the script. */
const foreign: ReadonlySet<ScriptFailure["code"]> = new Set(["cancelled", "deadline", "host_error"]);

export function createScriptThrottle(): ScriptThrottle {
  const known = new Map<string, Excess>();
  const turn = createLimiter(1);
  const has = (version: string) => (known.get(version)?.times ?? 0) >= fromTimes;

  return {
    has,
    async over(version, { signal, isNested }) {
      const granted = isNested ? Promise.resolve(nothing) : turn(version);
      const stays = await Promise.race([granted, left(signal)]);
      if (stays === undefined) return () => void granted.then((back) => back());
      const leftMs = (known.get(version)?.until ?? 0) - performance.now();
      // Who leaves is let go of at once.
      if (leftMs > 0) await sleep(leftMs, undefined, { signal }).catch(() => undefined);
      return stays;
    },
    note(version, { outcome, ms }) {
      const code = outcome.kind === "failed" ? outcome.failure.code : undefined;
      if (code !== undefined && foreign.has(code)) return false;
      if (code === undefined || !excesses.has(code)) {
        known.delete(version);
        return false;
      }
      const times = (known.get(version)?.times ?? 0) + 1;
      known.set(version, { times, until: performance.now() + Math.min(mostMs, timesAsLong * ms) });
      return times === fromTimes;
    },
    forget: (version) => void known.delete(version),
  };
}

const nothing = () => {};

const left = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else whenAborted(signal, () => resolve(undefined));
  });
