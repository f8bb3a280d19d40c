import { useSignal } from "@preact/signals";
import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { useAct } from "../../../data/act.ts";
import { counted, countText } from "../../../data/format.ts";
import { environmentName } from "../../../state/environment.ts";
import { filterOfAddress } from "../connection-filters.tsx";
import { readMatching } from "../connection-list.ts";
import { nameOf } from "../live-connections.ts";
import { DeleteDialog } from "./delete-dialog.tsx";
import { ReconnectDialog } from "./reconnect-dialog.tsx";
import { TagsDialog } from "./tags-dialog.tsx";

interface BulkBarProps {
  readonly chosen: ReadonlyMap<string, Connection>;
  readonly onChange: (chosen: ReadonlyMap<string, Connection>) => void;
  /** Connections were changed. */
  readonly onDone: () => void;
  readonly total: number | undefined;
}

const mostChosen = 10_000;
/** Each link is a session of half an hour. */
const mostLinks = 500;

/** What can be done with the chosen connections; absent without any. */
export function BulkBar({ chosen, onChange, onDone, total }: BulkBarProps) {
  const dialog = useSignal<"reconnect" | "tags" | "delete" | undefined>(undefined);
  const choosing = useAct();
  if (chosen.size === 0) return null;
  const all = [...chosen.values()];
  const close = () => {
    dialog.value = undefined;
  };
  const isMore = total === undefined || total > chosen.size;
  const done = () => {
    close();
    onChange(new Map());
    onDone();
  };
  async function chooseAll() {
    const signal = AbortSignal.timeout(60_000);
    const found = await readMatching(environmentName.value, filterOfAddress(), { most: mostChosen, signal });
    onChange(new Map(found.map((connection) => [nameOf(connection.ref), connection])));
  }
  return (
    <section class="bulk-bar" aria-label="Chosen connections">
      <strong>{counted(chosen.size, "connection")} chosen</strong>
      {isMore && chosen.size < mostChosen && (
        <Button kind="link" isSmall isBusy={choosing.isBusy} onClick={() => void choosing.run(chooseAll)}>
          {total === undefined ? "Choose all that match" : `Choose all ${countText(Math.min(total, mostChosen))}`}
        </Button>
      )}
      <span class="bulk-actions">
        <Button
          isSmall
          needs={Scope.CONNECTIONS_WRITE}
          isDisabled={chosen.size > mostLinks}
          title={chosen.size > mostLinks ? `At most ${mostLinks} links at once` : "A link for each end user"}
          onClick={() => (dialog.value = "reconnect")}
        >
          Reconnect links
        </Button>
        <Button isSmall needs={Scope.CONNECTIONS_WRITE} onClick={() => (dialog.value = "tags")}>
          Change tags
        </Button>
        <Button isSmall kind="danger" needs={Scope.CONNECTIONS_WRITE} onClick={() => (dialog.value = "delete")}>
          Delete
        </Button>
        <Button isSmall onClick={() => onChange(new Map())}>
          Clear
        </Button>
      </span>
      {dialog.value === "reconnect" && <ReconnectDialog connections={all} onClose={close} />}
      {dialog.value === "tags" && <TagsDialog connections={all} onClose={close} onDone={done} />}
      {dialog.value === "delete" && <DeleteDialog connections={all} onClose={close} onDone={done} />}
    </section>
  );
}
