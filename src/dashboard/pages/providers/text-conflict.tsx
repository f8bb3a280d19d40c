import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { type DiffLine, lineDiff } from "../../data/line-diff.ts";

interface TextConflictProps {
  /** The text as another has saved it. */
  readonly stored: string;
  readonly mine: string;
  readonly changedAt: Timestamp | undefined;
  readonly onTakeTheirs: () => void;
  readonly onKeepMine: () => Promise<unknown>;
  readonly onClose: () => void;
}

const signs: Readonly<Record<DiffLine["kind"], string>> = { same: " ", removed: "−", added: "+" };

/** Shows how one's own text differs from what another has saved meanwhile. */
export function TextConflict({ stored, mine, changedAt, onTakeTheirs, onKeepMine, onClose }: TextConflictProps) {
  const acting = useAct({ isQuiet: true });
  const lines = lineDiff(stored.split("\n"), mine.split("\n")) ?? [];
  return (
    <Dialog
      title="Changed meanwhile"
      onClose={onClose}
      isWide
      actions={
        <>
          <Button onClick={onTakeTheirs}>Drop my changes</Button>
          <Button kind="primary" isBusy={acting.isBusy} onClick={() => void acting.run(onKeepMine)}>
            Save my text over this
          </Button>
        </>
      }
    >
      <p>
        Someone saved another description <Time at={changedAt} />. Yours would remove the lines with − and add those
        with +.
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard. */}
      <section class="diff" aria-label="Differences" tabIndex={0}>
        {lines.map(({ kind, text }, i) => (
          <div key={i} class={`diff-line ${kind}`}>
            <span>{signs[kind]}</span>
            {text}
          </div>
        ))}
      </section>
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
