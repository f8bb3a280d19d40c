/** Runs, scripts and syncs in words. */

import {
  type Run,
  Run_State,
  Script_Kind,
  type Sync,
  Sync_State,
  type SyncRef,
} from "../../../gen/latchkey/v1/sync_pb.ts";
import type { BadgeTone } from "../../components/badge.tsx";
import { linkTo, pathOf } from "../../state/router.ts";

export const kindNames: Readonly<Record<Script_Kind, string>> = {
  [Script_Kind.UNSPECIFIED]: "script",
  [Script_Kind.SYNC]: "sync",
  [Script_Kind.ACTION]: "action",
  [Script_Kind.EVENT]: "event",
};

export const kindOf = (name: string): Script_Kind =>
  name === "action" ? Script_Kind.ACTION : name === "event" ? Script_Kind.EVENT : Script_Kind.SYNC;

type RunWords = readonly [name: string, tone: BadgeTone];
const unknown: RunWords = ["Unknown", "quiet"];

const runStates: Readonly<Partial<Record<Run_State, RunWords>>> = {
  [Run_State.QUEUED]: ["Queued", "quiet"],
  [Run_State.RUNNING]: ["Running", "info"],
  [Run_State.SUCCEEDED]: ["Succeeded", "good"],
  [Run_State.FAILED]: ["Failed", "bad"],
  [Run_State.CANCELLED]: ["Cancelled", "quiet"],
  [Run_State.INTERRUPTED]: ["Interrupted", "warn"],
};

export const runStateWords = (state: Run_State): RunWords => runStates[state] ?? unknown;

const syncStates: Readonly<Partial<Record<Sync_State, RunWords>>> = {
  [Sync_State.SCHEDULED]: ["Scheduled", "good"],
  [Sync_State.RUNNING]: ["Running", "info"],
  [Sync_State.PAUSED]: ["Paused", "quiet"],
  [Sync_State.FAILED]: ["Failed", "bad"],
};

export const syncStateWords = (state: Sync_State): RunWords => syncStates[state] ?? unknown;

export const causes: Readonly<Record<string, string>> = {
  schedule: "Schedule",
  trigger: "Request",
  webhook: "Webhook",
  event: "Event",
  catch_up: "Catch-up",
  retry: "Retry",
};

export const isOver = ({ state }: Run): boolean => state !== Run_State.QUEUED && state !== Run_State.RUNNING;

const units: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day", w: "week" };

/** "every 5 minutes", from any form that a script may have: `5m`, `every hour`, `30 sec`. */
export function frequencyText(frequency: string): string {
  const text = frequency.trim().toLowerCase();
  const [, amount, unit = ""] = /^(?:every\s+)?(\d+)\s*([a-z]+)$/.exec(text) ?? [];
  if (amount === undefined) return text === "" ? "" : sentenceCase(text.startsWith("every ") ? text : `every ${text}`);
  const name = unit.startsWith("mo") ? "month" : (units[unit.charAt(0)] ?? unit);
  return amount === "1" ? `Every ${name}` : `Every ${amount} ${name}s`;
}

const sentenceCase = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** What to do about a run that failed, by the code of its failure. */
const remedies: Readonly<Record<string, string>> = {
  script_error: "The last lines of the log name file and line. A corrected file is used at once.",
  action_error: "The script threw this error on purpose. Its payload is below.",
  invalid_input: "Compare the input with the schema that the script declares.",
  invalid_output: "The output does not match the schema that the script declares.",
  deadline: "Fetch less in one run and save a checkpoint, or allow longer runs in the configuration.",
  memory: "Save records in smaller batches instead of collecting all of them first.",
  tool_calls: "Request larger pages, or fetch less in one run.",
  output_too_large: "Return less, or save the data as records.",
  unknown_script: "Restore the file in the scripts folder, or pause the sync.",
  interrupted: "The process ended during the run. It runs once more by itself.",
  host_error: "Try again. If it happens again, look at the log of the process.",
  busy: "Too many scripts run at once. Try again in a moment.",
  input_required: "The client was asked, and calls again with the answers: look at the next run.",
  paused: "The sync is paused, so the webhook was not handled. Resume the sync to handle webhooks.",
};

export function remedyOf({ problem, error }: Run): string {
  if (error?.code === "script_http_error")
    return "The provider refused a request. Look at its answer below, and at the connection.";
  if (error?.code === "script_network_error") return "The provider did not answer. Try again later.";
  return remedies[problem?.code ?? ""] ?? "";
}

export const connectionText = ({ connection }: Pick<Run, "connection">): string =>
  connection === undefined ? "" : `${connection.integration}/${connection.id}`;

export const connectionLink = (connection: { readonly integration: string; readonly id: string }): string =>
  linkTo(pathOf("connections", connection.integration, connection.id));

export const recordsLink = ({ connection, variant }: SyncRef): string =>
  linkTo(pathOf("records", connection?.integration ?? "", connection?.id ?? ""), {
    variant: variant === "base" ? "" : variant,
  });

export const scriptLink = (integration: string, kind: Script_Kind, name: string): string =>
  linkTo(pathOf("scripts", integration, kindNames[kind] ?? "", name));

export const recordTotal = ({ recordCounts }: Sync): bigint =>
  Object.values(recordCounts).reduce((sum, count) => sum + count, 0n);

/** "+3 ~1 −2 Event": added, changed, deleted. */
export const countsText = ({ counts }: Run): string =>
  Object.entries(counts)
    .map(([model, { added, updated, deleted }]) => `+${added} ~${updated} −${deleted} ${model}`)
    .join(", ");
