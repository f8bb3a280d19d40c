import { useSignal } from "@preact/signals";
import type { Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useLoad } from "../../data/load.ts";
import { connections, webhooks } from "../../state/clients.ts";

const mostOffered = 8;

interface AssignDialogProps {
  readonly notification: Notification;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Files a webhook that matched nothing to a connection of its integration. */
export function AssignDialog({ notification, onClose, onDone }: AssignDialogProps) {
  const { environment, integration, id } = notification;
  const search = useSignal("");
  const chosen = useSignal("");
  const acting = useAct({ isQuiet: true });
  const text = search.value.trim();
  const found = useLoad(
    async (signal) => {
      const filter = { integrations: [integration], search: text };
      const page = await connections.listConnections({ environment, filter, pageSize: mostOffered }, { signal });
      return page.connections.flatMap(({ ref, endUser }) =>
        ref === undefined ? [] : [{ id: ref.id, user: endUser?.email ?? "" }],
      );
    },
    [environment, integration, text],
  );
  const offered = found.value ?? [];
  async function submit() {
    const connectionId = chosen.value;
    if (connectionId === "") return;
    const work = () => webhooks.assignNotification({ environment, id, connectionId });
    if (!(await acting.run(work, `Filed to ${connectionId}`))) return;
    onDone();
    onClose();
  }
  return (
    <Dialog
      title="File to a connection"
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy} isDisabled={chosen.value === ""}>
            {chosen.value === "" ? "File" : `File to ${chosen.value}`}
          </Button>
        </>
      }
    >
      <p>Your application gets this webhook once more, with the connection. Syncs that listen to it run.</p>
      <Field
        label={`Connection of ${integration}`}
        type="search"
        placeholder="ID, or name or email of the end user"
        value={search.value}
        onInput={(value) => (search.value = value)}
        isFocused
      />
      <fieldset class="choice-list" aria-label="Connections">
        {offered.map((one) => (
          <label key={one.id}>
            <input
              type="radio"
              name="connection"
              checked={chosen.value === one.id}
              onChange={() => (chosen.value = one.id)}
            />
            <span>{one.id}</span> <span class="quiet">{one.user}</span>
          </label>
        ))}
        {found.value !== undefined && offered.length === 0 && <p class="quiet">No connection fits.</p>}
      </fieldset>
      {found.fault !== undefined && <FaultNotice fault={found.fault} retry={found.reload} />}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
