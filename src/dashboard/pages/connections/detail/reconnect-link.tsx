import { useSignal } from "@preact/signals";
import type { CreateConnectSessionResponse } from "../../../../gen/latchkey/v1/connect_session_pb.ts";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Dialog } from "../../../components/dialog.tsx";
import { FaultNotice } from "../../../components/states.tsx";
import { useAct } from "../../../data/act.ts";
import { connectSessions } from "../../../state/clients.ts";
import { NewLink } from "../../connect/new-link.tsx";

interface ReconnectLinkProps {
  readonly connection: Connection;
  readonly onClose: () => void;
}

/** Makes a link by which the end user authorizes the connection again. */
export function ReconnectLinkDialog({ connection: { ref }, onClose }: ReconnectLinkProps) {
  const made = useSignal<CreateConnectSessionResponse | undefined>(undefined);
  const act = useAct({ isQuiet: true });
  async function make() {
    if (ref === undefined) return;
    made.value = await connectSessions.createConnectSession({ environment: ref.environment, reconnect: ref });
  }
  return (
    <Dialog
      title={`Reconnect ${ref?.id}`}
      onClose={onClose}
      onSubmit={() => {
        if (made.value === undefined) void act.run(make);
        else onClose();
      }}
      actions={
        made.value === undefined ? (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" kind="primary" isBusy={act.isBusy}>
              Make a link
            </Button>
          </>
        ) : (
          <Button type="submit" kind="primary">
            Done
          </Button>
        )
      }
    >
      {made.value === undefined ? (
        <p>
          The end user opens a link and authorizes the account again. The connection keeps its ID, metadata, tags and
          records.
        </p>
      ) : (
        <NewLink created={made.value} />
      )}
      {act.fault !== undefined && <FaultNotice fault={act.fault} />}
    </Dialog>
  );
}
