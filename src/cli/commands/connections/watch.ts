import type { Command } from "commander";
import {
  ConnectionService,
  type WatchConnectionsResponse,
  WatchConnectionsResponseSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { WatchMarker_Kind } from "../../../gen/latchkey/v1/watch_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl, escapeControlInLines } from "../../terminal/escape-control.ts";
import { revision } from "../../terminal/option-values.ts";
import type { Paint } from "../../terminal/paint.ts";
import { plainJson } from "../../terminal/plain-json.ts";
import { write } from "../../terminal/terminal.ts";
import { nameOf } from "./names.ts";
import { stateText, stateTone } from "./states.ts";

interface WatchFrom {
  readonly integration?: string;
  readonly fromRevision?: bigint;
  readonly changesOnly?: boolean;
}

/** Adds `connections watch`: shows current connections, then changes, until interrupted. */
export function addWatch(connections: Command, act: Act): void {
  connections
    .command("watch")
    .option("--integration <key>", "only connections of this integration")
    .option("--from-revision <revision>", "resume after this revision", revision)
    .option("--changes-only", "skip the initial snapshot")
    .summary("list the connections of an environment, then print each change")
    .action(
      act(async ({ client, output, environment, terminal }, given: WatchFrom) => {
        const { integration = "", fromRevision = 0n, changesOnly = false } = given;
        const request = { environment, integration, fromRevision, changesOnly };
        let seen = fromRevision;
        let isWhole = false;
        try {
          for await (const step of client(ConnectionService).watchConnections(request)) {
            // Within a snapshot, there is no revision to resume from yet.
            isWhole ||= step.event.case === "marker" && step.event.value.kind !== WatchMarker_Kind.SNAPSHOT_BEGIN;
            if (isWhole) seen = revisionOf(step) ?? seen;
            const text = output.json
              ? escapeControlInLines(JSON.stringify(plainJson(WatchConnectionsResponseSchema, step)))
              : describe(step, output.paint);
            await write(terminal.stdout, `${text}\n`);
          }
        } catch (error) {
          // An interrupt is the normal end of a watch.
          if (terminal.signal.aborted) return;
          await output.note(`Use --from-revision ${seen} to resume here.`);
          throw error;
        }
      }),
    );
}

const revisionOf = ({ event }: WatchConnectionsResponse): bigint | undefined => event.value?.revision;

const markers: Readonly<Record<number, string>> = {
  [WatchMarker_Kind.SNAPSHOT_BEGIN]: "snapshot:",
  [WatchMarker_Kind.SNAPSHOT_END]: "end of the snapshot; changes follow",
  [WatchMarker_Kind.RESUMED]: "resumed; changes follow",
  [WatchMarker_Kind.PROGRESS]: "no changes",
};

function describe({ event }: WatchConnectionsResponse, paint: Paint): string {
  if (event.case === "put") {
    const { ref, revision: at } = event.value;
    return `${at}  put      ${escapeControl(nameOf(ref))}  ${paint(stateTone(event.value), escapeControl(stateText(event.value)))}`;
  }
  if (event.case === "deleted")
    return `${event.value.revision}  ${paint("bad", "deleted")}  ${escapeControl(nameOf(event.value.ref))}`;
  return paint("dim", `${event.value?.revision ?? ""}  ${markers[event.value?.kind ?? 0] ?? ""}`.trim());
}
