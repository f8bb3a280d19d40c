import { useSignal } from "@preact/signals";
import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import { type Connection, Revocation_State } from "../../../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../../../gen/latchkey/v1/credentials_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Confirm } from "../../../components/confirm.tsx";
import { Section } from "../../../components/page.tsx";
import { useAct } from "../../../data/act.ts";
import { connections } from "../../../state/clients.ts";
import { say } from "../../../state/messages.ts";
import { linkTo, navigate } from "../../../state/router.ts";
import { needsReconnect } from "../state-words.tsx";
import { ReconnectLinkDialog } from "./reconnect-link.tsx";
import { RevealDialog } from "./reveal-dialog.tsx";

interface ConnectionActionsProps {
  readonly connection: Connection;
  readonly onChange: () => void;
}

/** What can be done with a connection. */
export function ConnectionActions({ connection, onChange }: ConnectionActionsProps) {
  const isReconnecting = useSignal(false);
  const refreshing = useAct();
  const revealing = useAct();
  const revealed = useSignal<Credentials | undefined>(undefined);
  const { ref } = connection;
  if (ref === undefined) return null;
  const isRefreshable = connection.credentialsKind !== "api_key" && connection.credentialsKind !== "basic";
  /** The session alone may not: the person is asked for the key. */
  async function reveal() {
    if (ref === undefined) return;
    const { credentials } = await connections.getConnection({ ref, includeCredentials: true });
    revealed.value = credentials;
  }
  return (
    <>
      <Button isBusy={revealing.isBusy} onClick={() => void revealing.run(reveal)}>
        Reveal credentials
      </Button>
      {isRefreshable && (
        <Button
          needs={Scope.CONNECTIONS_WRITE}
          isBusy={refreshing.isBusy}
          onClick={() =>
            void refreshing
              .run(() => connections.refreshConnection({ ref }), "Refreshed the credentials")
              .then(onChange)
          }
        >
          Refresh now
        </Button>
      )}
      <Button
        kind={needsReconnect(connection) ? "primary" : "plain"}
        needs={Scope.CONNECTIONS_WRITE}
        onClick={() => (isReconnecting.value = true)}
      >
        Reconnect
      </Button>
      {isReconnecting.value && (
        <ReconnectLinkDialog connection={connection} onClose={() => (isReconnecting.value = false)} />
      )}
      {revealed.value !== undefined && (
        <RevealDialog credentials={revealed.value} onClose={() => (revealed.value = undefined)} />
      )}
    </>
  );
}

/** Deletes the connection once its ID is typed. */
export function DeleteSection({ connection: { ref } }: Pick<ConnectionActionsProps, "connection">) {
  const isAsked = useSignal(false);
  if (ref === undefined) return null;
  async function remove() {
    if (ref === undefined) return;
    const { revocation } = await connections.deleteConnection({ ref });
    if (revocation?.state === Revocation_State.PENDING)
      say(`Deleted ${ref.id}. The provider is asked to revoke its grant`);
    navigate(linkTo("/connections"));
  }
  return (
    <Section title="Delete">
      <p class="quiet">
        Requests through the connection then fail. Its grant at the provider is revoked in the background, unless the
        integration keeps grants.
      </p>
      <Button isSmall kind="danger" needs={Scope.CONNECTIONS_WRITE} onClick={() => (isAsked.value = true)}>
        Delete the connection
      </Button>
      {isAsked.value && (
        <Confirm
          title={`Delete ${ref.id}`}
          verb="Delete the connection"
          isDanger
          typed={ref.id}
          act={remove}
          done={`Deleted ${ref.integration}/${ref.id}`}
          onClose={() => (isAsked.value = false)}
        >
          <p>
            Latchkey deletes its credentials, records and channels, and requests through it fail at once. This cannot be
            undone.
          </p>
        </Confirm>
      )}
    </Section>
  );
}
