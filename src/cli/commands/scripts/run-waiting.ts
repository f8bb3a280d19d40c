import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { LogLine } from "../../../gen/latchkey/v1/log_pb.ts";
import { LogService } from "../../../gen/latchkey/v1/log_pb.ts";
import { type Run, Run_State, RunSchema, SyncService } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { CommandSession } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { isOver, runStory } from "./run-states.ts";

/** Longer than any run that a caller waits for: actions and dry runs take at most two minutes. */
export const runTimeoutMs = 130_000;

/** Polling interval: starts at the first value, doubles up to the second. */
const firstLookMs = 100;
const lastLookMs = 2_000;

/** Waits until a run is over, however long that takes. */
export async function runOver({ client, environment, terminal }: CommandSession, id: string): Promise<Run> {
  for (let waitMs = firstLookMs; ; waitMs = Math.min(waitMs * 2, lastLookMs)) {
    const { run } = await client(SyncService).getRun({ environment, id });
    if (run === undefined) throw new Error(`there is no run ${id} any more`);
    if (isOver(run)) return run;
    await sleep(waitMs, undefined, { signal: terminal.signal });
  }
}

/** Returns the log lines of a run; empty if it has no log yet, or the log was deleted. */
export async function linesOf({ client, environment }: CommandSession, { logId }: Run): Promise<readonly LogLine[]> {
  if (logId === "") return [];
  try {
    const { log } = await client(LogService).getLog({ environment, id: logId });
    return log?.lines ?? [];
  } catch (error) {
    // Logs may be deleted earlier than their runs.
    if (error instanceof ConnectError && error.code === Code.NotFound) return [];
    throw error;
  }
}

/** Shows a finished run; the exit code reflects its result. */
export async function tellRun(session: CommandSession, run: Run): Promise<number> {
  const { output } = session;
  if (output.json) await output.one(RunSchema, run);
  else await output.line(runStory(run, await linesOf(session, run), output.paint));
  return run.state === Run_State.SUCCEEDED ? exitCodes.ok : exitCodes.failed;
}
