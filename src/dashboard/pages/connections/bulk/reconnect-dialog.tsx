import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { CopyField } from "../../../components/copy.tsx";
import { Dialog } from "../../../components/dialog.tsx";
import { Progress } from "../../../components/progress.tsx";
import { csvText, download } from "../../../data/csv.ts";
import { useEach } from "../../../data/each.ts";
import { counted } from "../../../data/format.ts";
import { connectSessions } from "../../../state/clients.ts";
import { say } from "../../../state/messages.ts";
import { ownerOf } from "../connection-columns.tsx";
import { BulkFailures } from "./bulk-failures.tsx";

interface ReconnectDialogProps {
  readonly connections: readonly Connection[];
  readonly onClose: () => void;
}

interface ReconnectLink {
  readonly connection: Connection;
  readonly link: string;
}

/** Makes a link for each connection, by which its end user authorizes it again. */
export function ReconnectDialog({ connections, onClose }: ReconnectDialogProps) {
  const links = useEach<Connection, ReconnectLink>();
  const isMade = links.results.length > 0;
  const start = () =>
    links.run(connections, async (connection, signal) => {
      const { ref } = connection;
      if (ref === undefined) throw new Error("a listed connection has a ref");
      const request = { environment: ref.environment, reconnect: ref };
      const { connectLink } = await connectSessions.createConnectSession(request, { signal });
      return { connection, link: connectLink };
    });
  const rowsOf = () =>
    links.results.map(({ connection, link }) => [
      connection.ref?.integration ?? "",
      connection.ref?.id ?? "",
      ownerOf(connection),
      link,
    ]);
  return (
    <Dialog
      title={`Reconnect links for ${counted(connections.length, "connection")}`}
      onClose={onClose}
      isWide
      actions={
        isMade ? (
          <>
            <Button
              onClick={() =>
                void navigator.clipboard
                  .writeText(links.results.map(({ link }) => link).join("\n"))
                  .then(() => say("Links copied"))
              }
            >
              Copy all
            </Button>
            <Button
              kind="primary"
              onClick={() =>
                download("reconnect-links.csv", csvText(["integration", "connection", "end_user", "link"], rowsOf()))
              }
            >
              Download CSV
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" isBusy={links.isRunning} onClick={() => void start()}>
              Make {counted(connections.length, "link")}
            </Button>
          </>
        )
      }
    >
      <p>
        Each link works once, for 30 minutes, in one browser. It is shown only here: send it to the end user of the
        connection.
      </p>
      {links.isRunning && <Progress done={links.done} all={connections.length} label="Links made" />}
      <BulkFailures failures={links.failures} />
      {isMade && (
        <ul class="link-list">
          {links.results.map(({ connection, link }) => (
            <li key={link}>
              <strong>{connection.ref?.id}</strong>
              <CopyField text={link} label={`link for ${connection.ref?.id}`} />
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
