import { toJsonString } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { InvalidArgumentError } from "commander";
import { kindName, stateName } from "../../../core/scripts/run-ending.ts";
import type { LogLine } from "../../../gen/latchkey/v1/log_pb.ts";
import { type RecordCounts, type Run, Run_State, Run_StateSchema } from "../../../gen/latchkey/v1/sync_pb.ts";
import { escapeControl, escapeControlInLines } from "../../terminal/escape-control.ts";
import { formatCount, formatDuration, formatTime } from "../../terminal/format.ts";
import type { Paint, Tone } from "../../terminal/paint.ts";
import type { Column } from "../../terminal/table.ts";
import { nameOf } from "../connections/names.ts";
import { formatLogLine } from "../log-lines.ts";

const states: ReadonlyMap<string, Run_State> = new Map(
  Run_StateSchema.values.flatMap(({ number }) =>
    number === Run_State.UNSPECIFIED ? [] : [[stateName(number as Run_State), number as Run_State]],
  ),
);

export const runStates: readonly string[] = [...states.keys()];

/** Collects states by their names. */
export function runStatesNamed(text: string, before: readonly Run_State[] = []): readonly Run_State[] {
  const state = states.get(text);
  if (state === undefined) throw new InvalidArgumentError(`It must be one of ${runStates.join(", ")}.`);
  return [...before, state];
}

/** Adds the reason, if there is one: `failed: script_error`. */
export function runStateText({ state, problem }: Run): string {
  const name = stateName(state) || `state ${state}`;
  return problem === undefined || problem.code === name ? name : `${name}: ${problem.code}`;
}

export function runStateTone({ state }: Run): Tone {
  if (state === Run_State.SUCCEEDED) return "good";
  if (state === Run_State.FAILED) return "bad";
  return state === Run_State.QUEUED || state === Run_State.RUNNING ? "plain" : "warning";
}

export const isOver = ({ state }: Run): boolean => state !== Run_State.QUEUED && state !== Run_State.RUNNING;

/** `Event +3 ~1 -2`: added, updated, deleted. */
export const countsText = ({ counts }: Run): string =>
  Object.entries(counts)
    .map(([model, { added, updated, deleted }]) => `${model} +${added} ~${updated} -${deleted}`)
    .join(", ");

export const runColumns: readonly Column<Run>[] = [
  { title: "RUN", text: ({ id }) => id },
  { title: "WHEN", time: ({ startedAt, dueAt }) => startedAt ?? dueAt },
  { title: "SCRIPT", text: ({ kind, script: name }) => `${kindName(kind)} ${name}`.trim() },
  { title: "CONNECTION", text: ({ connection }) => nameOf(connection) },
  { title: "BY", text: ({ cause }) => cause },
  { title: "STATE", text: runStateText, tone: runStateTone },
  { title: "TOOK", text: ({ duration }) => formatDuration(duration) },
  { title: "RECORDS", text: countsText },
];

/** Formats a run: what it was, how it ended, and its log. */
export function runStory(run: Run, lines: readonly LogLine[], paint: Paint): string {
  const { id, script, kind, connection, cause, version, dueAt, startedAt, duration, counts, problem, output } = run;
  const about = `${kindName(kind)} ${script} of ${nameOf(connection)}`;
  const times = [
    ["due", formatTime(dueAt)],
    ["began", formatTime(startedAt)],
    ["took", formatDuration(duration)],
    ["version", version],
  ].flatMap(([what, text]) => (text === "" ? [] : [`${what} ${text}`]));
  return [
    `${paint("bold", escapeControl(`run ${id}`))}  ${escapeControl(about)}  ${paint(runStateTone(run), escapeControl(runStateText(run)))}`,
    paint("dim", escapeControl([`by ${cause}`, ...times].join(", "))),
    ...Object.entries(counts).map(([model, of]) => escapeControl(`${model}: ${changed(of)}`)),
    ...(problem === undefined
      ? []
      : [paint("bad", escapeControlInLines(problem.message)), ...stackOf(lines).map(indented)]),
    ...(output === undefined ? [] : ["", escapeControlInLines(toJsonString(ValueSchema, output, { prettySpaces: 2 }))]),
    ...(lines.length === 0 ? [] : ["", ...lines.flatMap((line) => formatLogLine(line, paint))]),
  ].join("\n");
}

const changed = ({ added, updated, deleted }: RecordCounts): string =>
  `${formatCount(Number(added), "record")} added, ${updated} updated, ${deleted} deleted`;

const indented = (line: string): string => `  at ${escapeControl(line)}`;

/** Returns the lines of the customer's own files, innermost first, from the last line of a run's log. */
export function stackOf(lines: readonly LogLine[]): readonly string[] {
  const stack = lines.findLast(({ fields }) => fields?.code !== undefined && fields["stack"] !== undefined)?.fields;
  const text = stack?.["stack"];
  return typeof text === "string" && text !== "" ? text.split(" < ") : [];
}
