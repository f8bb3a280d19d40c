import { create } from "@bufbuild/protobuf";
import type { StoredRun } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { ProblemSchema } from "../../gen/latchkey/v1/problem_pb.ts";
import { type Run, Run_State, Script_Kind } from "../../gen/latchkey/v1/sync_pb.ts";
import type { RawLine } from "../logs/log-lines.ts";
import type { ScriptFailure, ScriptOutcome } from "./script.ts";
import { runOf } from "./sync-state.ts";

// Names as metrics and the command line show them.
const kinds: ReadonlyMap<Script_Kind, string> = new Map([
  [Script_Kind.SYNC, "sync"],
  [Script_Kind.ACTION, "action"],
  [Script_Kind.EVENT, "event"],
]);
const states: ReadonlyMap<Run_State, string> = new Map([
  [Run_State.QUEUED, "queued"],
  [Run_State.RUNNING, "running"],
  [Run_State.SUCCEEDED, "succeeded"],
  [Run_State.FAILED, "failed"],
  [Run_State.CANCELLED, "cancelled"],
  [Run_State.INTERRUPTED, "interrupted"],
]);
export const kindName = (kind: Script_Kind): string => kinds.get(kind) ?? "";
export const stateName = (state: Run_State): string => states.get(state) ?? "";

/** Returns the operation name that the logs of runs are stored under. */
export const runOperation = (kind: Script_Kind): string => `script.${kindName(kind)}`;

/** Returns the final state of a run with this outcome. */
export function runStateOf(outcome: ScriptOutcome): Run_State {
  if (outcome.kind === "done") return Run_State.SUCCEEDED;
  const { code } = outcome.failure;
  return code === "cancelled" || code === "input_required" ? Run_State.CANCELLED : Run_State.FAILED;
}

/** Marks a run as ended, with the reason. */
export function endRun(
  stored: StoredRun,
  state: Run_State,
  problem: (Pick<ScriptFailure, "message"> & { readonly code: string }) | undefined,
): StoredRun {
  const { problem: _, ...run } = runOf(stored);
  const why =
    problem === undefined ? {} : { problem: create(ProblemSchema, { code: problem.code, message: problem.message }) };
  return { ...stored, run: { ...run, state, ...why } };
}

/** Returns the last lines of the run's log. */
export function lastLines({ state, counts }: Run, failure: ScriptFailure | undefined): Omit<RawLine, "atMs">[] {
  const saved = Object.entries(counts).map(([model, { added, updated, deleted }]) => ({
    level: "info" as const,
    sentence: "records were changed",
    fields: { model, count: Number(added + updated + deleted) },
  }));
  if (failure === undefined) return saved;
  const level = state === Run_State.CANCELLED ? ("info" as const) : ("error" as const);
  const { code, message, stack } = failure;
  if (code === "input_required") return [...saved, { level, sentence: "the script asks its client", fields: {} }];
  return [...saved, { level, sentence: "the script failed", fields: { code, message, stack: stack.join(" < ") } }];
}
