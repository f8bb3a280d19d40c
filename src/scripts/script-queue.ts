import { createLimiter } from "../base/limiter.ts";
import type { World } from "../base/world.ts";
import type { ScriptJob, ScriptLimits, ScriptOutcome } from "../core/scripts/script.ts";
import type { ReadyScript } from "./load-script.ts";
import { failedOutcome } from "./script-run.ts";
import { createScriptThrottle } from "./throttle.ts";

/** Runs scripts, a limited number at a time in each queue; scripts that exceed limits are throttled. */
export interface ScriptQueue {
  run(ready: ReadyScript, job: ScriptJob): Promise<ScriptOutcome>;
  /** Forgets a version that was replaced. */
  forget(version: string): void;
}

interface ScriptQueueOptions {
  /** Maximum concurrent runs per queue. */
  readonly atOnce: number;
  /** Runs a script at once, within the limits of the job. */
  readonly runScript: (ready: ReadyScript, job: ScriptJob) => Promise<ScriptOutcome>;
  readonly world: Pick<World, "log">;
}

export function createScriptQueue({ atOnce, runScript, world }: ScriptQueueOptions): ScriptQueue {
  const limiter = createLimiter(atOnce);
  const throttle = createScriptThrottle();

  async function runAndNote(ready: ReadyScript, job: ScriptJob, limits: ScriptLimits): Promise<ScriptOutcome> {
    const { integration, name, version } = ready.script;
    const began = performance.now();
    const outcome = await runScript(ready, { ...job, limits });
    if (throttle.note(version, { outcome, ms: performance.now() - began })) {
      world.log.warn("a script keeps exceeding its limits; throttling its runs", { integration, script: name });
    }
    return outcome;
  }

  return {
    forget: throttle.forget,
    async run(ready, job) {
      const since = performance.now();
      const { deadlineMs } = job.limits;
      const { version } = ready.script;
      const signal = AbortSignal.any([job.signal, AbortSignal.timeout(Math.ceil(deadlineMs))]);
      const isThrottled = throttle.has(version);
      const isNested = job.row === "nested";
      const release = isThrottled ? await throttle.waitForSlot(version, { signal, isNested }) : undefined;
      const granted = limiter(job.row);
      const isTooLate = await Promise.race([granted.then(() => false), aborted(signal)]);
      const done = isTooLate ? () => void granted.then((back) => back()) : await granted;
      try {
        if (job.signal.aborted) return failedOutcome("cancelled", "cancelled before it started");
        const leftMs = Math.ceil(deadlineMs - (performance.now() - since));
        if (isTooLate || leftMs <= 0) {
          const why = isThrottled ? "; the script is throttled because it exceeded limits" : "";
          return failedOutcome("deadline", `did not start within ${deadlineMs} ms${why}`);
        }
        return await runAndNote(ready, job, { ...job.limits, deadlineMs: leftMs });
      } finally {
        done();
        release?.();
      }
    },
  };
}

const aborted = (signal: AbortSignal): Promise<boolean> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(true);
    else signal.addEventListener("abort", () => resolve(true), { once: true });
  });
