import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { useAct } from "../../../data/act.ts";
import { csvText, download } from "../../../data/csv.ts";
import { counted, countText, msOf } from "../../../data/format.ts";
import { environmentName } from "../../../state/environment.ts";
import { say } from "../../../state/messages.ts";
import { ownerOf } from "../connection-columns.tsx";
import { filterOfAddress } from "../connection-filters.tsx";
import { readMatching } from "../connection-list.ts";
import { wordsOf } from "../state-words.tsx";

const mostRows = 200_000;
const head = ["integration", "connection", "end_user", "state", "reason", "tags", "created_at", "last_used_at"];

/** Saves all connections that match as a file, without credentials. */
export function ExportButton() {
  const act = useAct();
  const readCount = useSignal(0);
  async function save() {
    readCount.value = 0;
    const found = await readMatching(environmentName.value, filterOfAddress(), {
      most: mostRows,
      onRead: (count) => (readCount.value = count),
      signal: AbortSignal.timeout(300_000),
    });
    download(`connections-${environmentName.value}.csv`, csvText(head, found.map(rowOf)));
    const isCut = found.length === mostRows;
    say(`Saved ${counted(found.length, "connection")}${isCut ? ", the most for one file: use a filter" : ""}`);
  }
  return (
    <Button isBusy={act.isBusy} onClick={() => void act.run(save)} title="Save all that match, without credentials">
      {act.isBusy && readCount.value > 0 ? `${countText(readCount.value)} read` : "Export CSV"}
    </Button>
  );
}

const rowOf = (connection: Connection): readonly string[] => {
  const { ref, state, stateReason, tags, createdAt, lastFetchedAt } = connection;
  const allTags = Object.entries(tags).map(([key, value]) => `${key}=${value}`);
  return [
    ref?.integration ?? "",
    ref?.id ?? "",
    ownerOf(connection),
    wordsOf(state).key,
    stateReason,
    allTags.join(" "),
    isoOf(createdAt),
    isoOf(lastFetchedAt),
  ];
};

function isoOf(at: Timestamp | undefined): string {
  const ms = msOf(at);
  return ms === undefined ? "" : new Date(ms).toISOString();
}
