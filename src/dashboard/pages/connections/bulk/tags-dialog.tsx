import { useSignal } from "@preact/signals";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Dialog } from "../../../components/dialog.tsx";
import { Field } from "../../../components/field.tsx";
import { Progress } from "../../../components/progress.tsx";
import { useEach } from "../../../data/each.ts";
import { counted } from "../../../data/format.ts";
import { connections as service } from "../../../state/clients.ts";
import { say } from "../../../state/messages.ts";
import { tagOf } from "../connection-filters.tsx";
import { BulkFailures } from "./bulk-failures.tsx";

interface TagsDialogProps {
  readonly connections: readonly Connection[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Sets and removes tags of many connections. Their other tags stay. */
export function TagsDialog({ connections, onClose, onDone }: TagsDialogProps) {
  const set = useSignal("");
  const removed = useSignal("");
  const work = useEach<Connection, true>();
  const added = Object.fromEntries(linesOf(set.value).flatMap(tagOf));
  const gone = linesOf(removed.value).map((key) => key.toLowerCase());
  const wrong = linesOf(set.value).find((line) => tagOf(line).length === 0);
  const isReady = wrong === undefined && (Object.keys(added).length > 0 || gone.length > 0);

  async function start() {
    await work.run(connections, async ({ ref, tags: own, revision }, signal) => {
      if (ref === undefined) throw new Error("a listed connection has a ref");
      const kept = Object.entries(own).filter(([key]) => !gone.includes(key));
      const tags = { ...Object.fromEntries(kept), ...added };
      const request = { connection: { ref, tags }, updateMask: { paths: ["tags"] }, expectedRevision: revision };
      await service.updateConnection(request, { signal });
      return true;
    });
  }
  const isOver = !work.isRunning && work.done > 0;
  return (
    <Dialog
      title={`Change tags of ${counted(connections.length, "connection")}`}
      onClose={isOver ? onDone : onClose}
      onSubmit={() => {
        if (isReady && !isOver) void start().then(() => say(`Changed the tags`));
      }}
      actions={
        isOver ? (
          <Button kind="primary" onClick={onDone}>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" kind="primary" isBusy={work.isRunning} isDisabled={!isReady}>
              Change tags
            </Button>
          </>
        )
      }
    >
      <Field
        label="Set"
        value={set.value}
        onInput={(value) => (set.value = value)}
        rows={3}
        isCode
        isFocused
        placeholder={"team=sales\nplan=pro"}
        help="One tag a line, as key=value."
        problem={wrong === undefined ? undefined : `"${wrong}" is not key=value.`}
      />
      <Field
        label="Remove"
        value={removed.value}
        onInput={(value) => (removed.value = value)}
        rows={2}
        isCode
        placeholder="trial"
        help="One key a line."
      />
      {(work.isRunning || isOver) && <Progress done={work.done} all={connections.length} label="Connections changed" />}
      <BulkFailures failures={work.failures} />
    </Dialog>
  );
}

const linesOf = (text: string): readonly string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
