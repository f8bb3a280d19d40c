import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";

/** A field with its value before, the stored one now, and the person's own. */
export interface FieldConflict {
  readonly path: string;
  readonly title: string;
  readonly before: string;
  readonly theirs: string;
  /** Undefined if the person did not change it. */
  readonly mine: string | undefined;
}

interface ConflictDialogProps {
  readonly conflicts: readonly FieldConflict[];
  readonly changedAt: Timestamp | undefined;
  readonly onTakeTheirs: () => void;
  readonly onKeepMine: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Shows what another changed meanwhile beside one's own changes, and asks which to keep. */
export function ConflictDialog({ conflicts, changedAt, onTakeTheirs, onKeepMine, onClose }: ConflictDialogProps) {
  const acting = useAct({ isQuiet: true });
  return (
    <Dialog
      title="Changed meanwhile"
      onClose={onClose}
      isWide
      actions={
        <>
          <Button onClick={onTakeTheirs}>Drop my changes</Button>
          <Button
            kind="primary"
            isBusy={acting.isBusy}
            onClick={() => void acting.run(onKeepMine, "Saved your changes")}
          >
            Save my changes over these
          </Button>
        </>
      }
    >
      <p>
        Someone saved other settings <Time at={changedAt} />. Fields that you did not change keep their stored value.
      </p>
      <div class="table-box">
        <table aria-label="Differences">
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Before</th>
              <th scope="col">Stored now</th>
              <th scope="col">Yours</th>
            </tr>
          </thead>
          <tbody>
            {conflicts.map(({ path, title, before, theirs, mine }) => (
              <tr key={path}>
                <th scope="row">{title}</th>
                <td>{shown(before)}</td>
                <td>{theirs === before ? <span class="quiet">unchanged</span> : <ins>{shown(theirs)}</ins>}</td>
                <td>{mine === undefined ? <span class="quiet">unchanged</span> : <ins>{shown(mine)}</ins>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}

const shown = (value: string) => (value === "" ? <span class="quiet">empty</span> : value);
