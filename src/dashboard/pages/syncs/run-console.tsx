import { useEffect, useRef } from "preact/hooks";
import type { Run } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { LogLineRow } from "../../components/log-lines.tsx";
import { Section } from "../../components/page.tsx";
import { countText } from "../../data/format.ts";
import type { ConsoleLine, WatchedRun } from "./use-run.ts";
import { isOver } from "./words.ts";

const nearPx = 40;

/** The lines of a run as they come. Follows the end, unless the person has scrolled up. */
export function RunConsole({ watched, run }: { readonly watched: WatchedRun; readonly run: Run }) {
  const { lines, isElsewhere, state } = watched;
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const { current } = box;
    if (current !== null && isAtEnd.current && !isOver(run)) current.scrollTop = current.scrollHeight;
  }, [lines]);
  return (
    <Section
      title="Console"
      actions={
        isOver(run) ? undefined : (
          <Badge tone={state === "live" ? "info" : "warn"}>{state === "live" ? "Live" : "Connecting"}</Badge>
        )
      }
    >
      <section
        ref={box}
        class="console"
        aria-label="Console"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard.
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          isAtEnd.current = scrollHeight - scrollTop - clientHeight < nearPx;
        }}
      >
        <ol class="log-lines">
          {lines.map((line, i) =>
            "missed" in line ? <GapRow key={i} missed={line.missed} /> : <LogLineRow key={i} line={line} />,
          )}
          {lines.length === 0 && <li class="log-gap">{emptyText(run, isElsewhere)}</li>}
        </ol>
      </section>
    </Section>
  );
}

const GapRow = ({ missed }: { readonly missed: Extract<ConsoleLine, { missed: bigint }>["missed"] }) => (
  <li class="log-gap">{missed === 0n ? "Some lines were left out" : `${countText(missed)} lines were left out`}</li>
);

function emptyText(run: Run, isElsewhere: boolean): string {
  if (isElsewhere) return "Another replica executes this run. Its lines come when it ends.";
  if (isOver(run)) return "This run has no log, or its log was deleted.";
  return run.startedAt === undefined ? "Waiting for the run to start." : "Waiting for the first line.";
}
