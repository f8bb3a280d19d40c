import type { Run } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Badge } from "../../components/badge.tsx";
import type { TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { durationText } from "../../data/format.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { causes, connectionText, countsText, kindNames, runStateWords } from "./words.ts";

export function RunState({ run: { state, problem } }: { readonly run: Run }) {
  const [name, tone] = runStateWords(state);
  return (
    <Badge tone={tone} {...(problem !== undefined && { title: problem.message })}>
      {name}
    </Badge>
  );
}

export const runLink = ({ id }: Run): string => linkTo(pathOf("runs", id));

export const durationMs = ({ duration }: Run): number | undefined =>
  duration === undefined ? undefined : Number(duration.seconds) * 1_000 + duration.nanos / 1e6;

function tookText(run: Run): string {
  const ms = durationMs(run);
  return ms === undefined ? "" : durationText(ms);
}

export const runColumns: readonly TableColumn<Run>[] = [
  { name: "Script", show: ({ script, kind }) => (script === "" ? kindNames[kind] : script) },
  { name: "State", show: (run) => <RunState run={run} /> },
  { name: "Connection", show: (run) => connectionText(run) },
  { name: "By", show: ({ cause }) => causes[cause] ?? cause, isMinor: true },
  { name: "Records", show: countsText, isMinor: true },
  { name: "Took", show: tookText, isNumber: true, isMinor: true },
  { name: "Started", show: ({ startedAt, dueAt }) => <Time at={startedAt ?? dueAt} /> },
];
