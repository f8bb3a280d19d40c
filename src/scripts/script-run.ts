import type { JsonValue } from "@bufbuild/protobuf";
import type { World } from "../base/world.ts";
import { type ScriptFailure, type ScriptJob, type ScriptOutcome, ToolFailure } from "../core/scripts/script.ts";
import { RunHalt } from "../core/scripts/script-client.ts";
import type { ReadyScript } from "./load-script.ts";
import type { RawFailure, ToolCall } from "./messages.ts";
import { placeLine, placesOf } from "./stack.ts";
import type { Threads, ThreadTask } from "./threads.ts";
import type { ToolQueues } from "./tool-queues.ts";

interface ScriptRunOptions {
  readonly threads: Pick<Threads, "run">;
  readonly toolQueues: Pick<ToolQueues, "open">;
  readonly world: Pick<World, "log">;
}

/** Extra time for a thread to end a run at its deadline by itself. */
const graceMs = 500;

/** Runs a script on a thread, and answers its calls with the tools of the job. Never rejects. */
export function runScript(
  { threads, toolQueues, world }: ScriptRunOptions,
  { script, bundle }: ReadyScript,
  job: ScriptJob,
): Promise<ScriptOutcome> {
  const { entry, facts, tools, signal } = job;
  const input = job.input === undefined ? {} : { input: job.input };
  return new Promise((resolve) => {
    let isOver = false;
    const calls = toolQueues.open();
    // A thread that no longer reads messages, such as one in an endless loop, is ended from here.
    const late = setTimeout(
      () => end(failedOutcome("deadline", `took longer than ${job.limits.deadlineMs} ms`), true),
      job.limits.deadlineMs + graceMs,
    );
    const cancel = () => end(failedOutcome("cancelled", "cancelled while it ran"), true);
    function end(outcome: ScriptOutcome, isOurs: boolean): void {
      if (isOver) return;
      isOver = true;
      calls.clear();
      clearTimeout(late);
      signal.removeEventListener("abort", cancel);
      if (isOurs) task.drop();
      resolve(outcome);
    }
    /** The run ended by itself. Calls that it made without waiting are still executed. */
    function ended(outcome: ScriptOutcome): void {
      calls.startAll();
      end(outcome, false);
    }
    const task: ThreadTask = threads.run({
      version: script.version,
      code: bundle.code,
      base: bundle.base,
      start: JSON.stringify({ entry, facts, ...input }),
      limits: job.limits,
      events: {
        calls(made) {
          for (const call of made) calls.add(() => void answer(call));
        },
        lines(lines) {
          if (!isOver) for (const line of lines) tools.log(line);
        },
        done: (text) => ended({ kind: "done", output: text === "" ? undefined : plainJson(text) }),
        failed: (failure) => ended({ kind: "failed", failure: withPlaces(failure, bundle.map) }),
      },
    });
    signal.addEventListener("abort", cancel, { once: true });

    async function answer({ id, tool, text }: ToolCall): Promise<void> {
      if (isOver) return;
      try {
        const value = await tools.call(tool, plainJson(text) as readonly JsonValue[]);
        if (!isOver) task.answer(id, JSON.stringify({ ok: true, value }));
      } catch (error) {
        if (isOver) return;
        if (error instanceof ToolFailure) {
          const { code, message, details } = error;
          task.answer(id, JSON.stringify({ ok: false, code, message, details }));
          return;
        }
        if (error instanceof RunHalt) {
          end(failedOutcome("input_required", error.message), true);
          return;
        }
        world.log.error("a script's call failed; ending its run", { tool, script: script.name, err: error });
        end(failedOutcome("host_error", `nango.${tool} failed with an internal error`), true);
      }
    }
  });
}

export const failedOutcome = (code: RawFailure["code"], message: string): ScriptOutcome => ({
  kind: "failed",
  failure: { code, message, stack: [] },
});

/** Parses JSON without `__proto__` keys, which could set a prototype when assigned; no real data has one. */
function plainJson(text: string): JsonValue {
  if (!/__proto__|\\u005[fF]/.test(text)) return JSON.parse(text) as JsonValue;
  return JSON.parse(text, (key, value: unknown) => (key === "__proto__" ? undefined : value)) as JsonValue;
}

/** Returns the failure with its stack in the customer's own files. */
const withPlaces = ({ stack, ...failure }: RawFailure, map: string): ScriptFailure => ({
  ...failure,
  stack: placesOf(stack, map).map(placeLine),
});
