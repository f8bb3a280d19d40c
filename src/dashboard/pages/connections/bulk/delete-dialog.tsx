import { useSignal } from "@preact/signals";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Dialog } from "../../../components/dialog.tsx";
import { Checkbox, Field } from "../../../components/field.tsx";
import { Progress } from "../../../components/progress.tsx";
import { FaultNotice } from "../../../components/states.tsx";
import { useAct } from "../../../data/act.ts";
import { counted } from "../../../data/format.ts";
import { connections as service } from "../../../state/clients.ts";
import { say } from "../../../state/messages.ts";
import { BulkFailures } from "./bulk-failures.tsx";

interface DeleteDialogProps {
  readonly connections: readonly Connection[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const perCall = 200;

/** Deletes connections once the person has typed how many. */
export function DeleteDialog({ connections, onClose, onDone }: DeleteDialogProps) {
  const typed = useSignal("");
  const done = useSignal(0);
  const keepsGrants = useSignal(false);
  const failures = useSignal<readonly (readonly [Connection, { readonly message: string }])[]>([]);
  const act = useAct({ isQuiet: true });
  const isReady = typed.value.trim().replaceAll(",", "") === String(connections.length);

  async function deleteAll() {
    for (let at = 0; at < connections.length; at += perCall) {
      const part = connections.slice(at, at + perCall);
      const deletions = part.flatMap(({ ref }) =>
        ref === undefined ? [] : [{ ref, ...(keepsGrants.value && { keepGrant: true }) }],
      );
      const { results } = await service.batchDeleteConnections({ deletions });
      const failed = results.flatMap(({ problem }, i) => {
        const connection = part[i];
        // Another person may have been faster.
        if (problem === undefined || problem.code === "unknown_connection" || connection === undefined) return [];
        return [[connection, { message: problem.message }] as const];
      });
      failures.value = [...failures.value, ...failed];
      done.value += part.length;
    }
  }
  async function submit() {
    if (!isReady || !(await act.run(deleteAll))) return;
    if (failures.value.length > 0) return;
    say(`Deleted ${counted(connections.length, "connection")}`);
    onDone();
  }
  const close = done.value > 0 ? onDone : onClose;
  return (
    <Dialog
      title={`Delete ${counted(connections.length, "connection")}`}
      onClose={close}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={close}>{done.value > 0 ? "Close" : "Cancel"}</Button>
          <Button type="submit" kind="danger" isBusy={act.isBusy} isDisabled={!isReady}>
            Delete {counted(connections.length, "connection")}
          </Button>
        </>
      }
    >
      <p>
        Latchkey deletes their credentials, records and channels. Requests through these connections fail at once. This
        cannot be undone. The grants at the providers are revoked in the background, unless an integration keeps grants.
      </p>
      <Checkbox
        label="Do not revoke the grants at the providers."
        isChecked={keepsGrants.value}
        onChange={(isChecked) => (keepsGrants.value = isChecked)}
      />
      <Field
        label={`Type ${connections.length} to confirm`}
        value={typed.value}
        onInput={(value) => (typed.value = value)}
        isFocused
      />
      {done.value > 0 && <Progress done={done.value} all={connections.length} label="Connections deleted" />}
      {act.fault !== undefined && <FaultNotice fault={act.fault} />}
      <BulkFailures failures={failures.value} />
    </Dialog>
  );
}
