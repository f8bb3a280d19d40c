import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type ConnectSession, ConnectSession_State } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Section } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { usePager } from "../../data/pager.ts";
import { connectSessions } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";

const lookAgainMs = 4_000;

const invitedIn = ({ endUser, tags, reconnect }: ConnectSession): string =>
  endUser?.displayName || endUser?.email || endUser?.id || (tags["end_user_id"] ?? reconnect?.id ?? tagsIn(tags));

const tagsIn = (tags: ConnectSession["tags"]): string =>
  Object.entries(tags)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");

/** The links that have not been used, with who was invited. */
export function OpenLinks({ round }: { readonly round: number }) {
  const environment = environmentName.value;
  const deleting = useAct();
  const pager = usePager(
    async (pageToken, signal) => {
      const page = await connectSessions.listConnectSessions({ environment, pageToken, pageSize: 50 }, { signal });
      return { items: page.sessions, nextPageToken: page.nextPageToken };
    },
    [environment, round],
  );
  const { reload } = pager;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") reload();
    }, lookAgainMs);
    return () => clearInterval(timer);
  }, []);
  const columns: readonly TableColumn<ConnectSession>[] = [
    { name: "Invited", show: invitedIn },
    {
      name: "For",
      show: ({ allowedIntegrations, reconnect }) =>
        reconnect !== undefined
          ? `Reconnect ${reconnect.integration}/${reconnect.id}`
          : allowedIntegrations.join(", ") || "All integrations",
    },
    {
      name: "State",
      show: ({ state }) =>
        state === ConnectSession_State.OPENED ? (
          <Badge tone="info">Opened</Badge>
        ) : (
          <Badge tone="quiet">Not opened</Badge>
        ),
    },
    { name: "Made by", show: ({ createdBy }) => createdBy, isMinor: true },
    { name: "Made", show: ({ createdAt }) => <Time at={createdAt} />, isMinor: true },
    { name: "Expires", show: ({ expiresAt }) => <Time at={expiresAt} /> },
    {
      name: "Action",
      show: (session) => (
        <Button
          isSmall
          needs={Scope.CONNECTIONS_WRITE}
          label={`Delete the link for ${invitedIn(session)}`}
          onClick={() =>
            void deleting
              .run(() => connectSessions.deleteConnectSession({ id: session.id }), "The link no longer works")
              .then(reload)
          }
        >
          Delete
        </Button>
      ),
    },
  ];
  return (
    <Section title="Open links">
      <PagedTable
        label="Open links"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No open links">
            <p>A link leaves this list when the account is connected, or after 30 minutes.</p>
          </Empty>
        }
      />
    </Section>
  );
}
