import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type AccessSession, AccessSessionState } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { TabFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { usePager } from "../../data/pager.ts";
import { usePoll } from "../../data/poll.ts";
import { accessSessions } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, pathOf, queryValue } from "../../state/router.ts";
import { EndSession } from "./end-session.tsx";
import { limitsText, requestsText, SessionBadge, sessionTitle } from "./session-words.tsx";

const pageSize = 50;
const lookEveryMs = 5_000;

const name: TableColumn<AccessSession> = {
  name: "Session",
  show: (session) => (
    <>
      {sessionTitle(session)}
      <span class="marked-sub">{limitsText(session)}</span>
    </>
  ),
};
const key: TableColumn<AccessSession> = { name: "Key", show: ({ createdBy }) => createdBy, isMinor: true };
const requests: TableColumn<AccessSession> = { name: "Requests", show: requestsText, isNumber: true, isMinor: true };

const activeColumns = (end: (session: AccessSession) => void): readonly TableColumn<AccessSession>[] => [
  name,
  key,
  { name: "Last used", show: ({ use }) => <Time at={use?.lastUsedAt} none="Not yet" />, isMinor: true },
  requests,
  { name: "Expires", show: ({ expiresAt }) => <Time at={expiresAt} /> },
  {
    name: "End",
    show: (session) => (
      <Button
        isSmall
        needs={Scope.CONNECTIONS_WRITE}
        label={`End ${sessionTitle(session)}`}
        onClick={() => end(session)}
      >
        End
      </Button>
    ),
    isMinor: true,
  },
];

const endedColumns: readonly TableColumn<AccessSession>[] = [
  name,
  { name: "State", show: ({ state }) => <SessionBadge state={state} /> },
  key,
  { name: "Ended", show: ({ endedAt }) => <Time at={endedAt} /> },
  { name: "Ended by", show: ({ endedBy }) => endedBy, isMinor: true },
];

type SessionTab = "" | "used" | "ended";

/** Access sessions: what agents and jobs may use now, and what they did. */
export function SessionsPage() {
  const environment = environmentName.value;
  const shown = shownOf(queryValue("show"));
  const ending = useSignal<AccessSession | undefined>(undefined);
  const pager = usePager(
    async (pageToken, signal) => {
      const request = { environment, ended: shown === "ended", inUse: shown === "used", pageToken, pageSize };
      const page = await accessSessions.listAccessSessions(request, { signal });
      return { items: page.sessions, nextPageToken: page.nextPageToken };
    },
    [environment, shown],
  );
  usePoll(() => {
    // Further pages that a person has opened stay.
    if (!pager.isLoading && (pager.items?.length ?? 0) <= pageSize) pager.reload();
  }, lookEveryMs);
  return (
    <PageFrame
      title="Access sessions"
      lead="Short-lived tokens of agents and jobs. Each may use the connections that it names, and nothing else."
    >
      <TabFilter
        name="show"
        label="Access sessions"
        options={[
          ["", "Active"],
          ["used", "In use"],
          ["ended", "Ended in the last 7 days"],
        ]}
      />
      <PagedTable
        label="Access sessions"
        pager={pager}
        columns={shown === "ended" ? endedColumns : activeColumns((session) => (ending.value = session))}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo(pathOf("access-sessions", id))}
        empty={<NoSessions environment={environment} shown={shown} />}
      />
      {ending.value?.state === AccessSessionState.ACTIVE && (
        <EndSession session={ending.value} onEnd={pager.reload} onClose={() => (ending.value = undefined)} />
      )}
    </PageFrame>
  );
}

const shownOf = (text: string): SessionTab => (text === "used" || text === "ended" ? text : "");

function NoSessions({ environment, shown }: { readonly environment: string; readonly shown: SessionTab }) {
  if (shown === "used") {
    return (
      <Empty title="No session is in use">
        <p>Sessions appear here once this replica has seen a request of theirs.</p>
      </Empty>
    );
  }
  if (shown === "ended") return <Empty title="No session has ended in the last 7 days" />;
  return (
    <Empty title="No session is active">
      <p>Give an agent or a job a token for the connections that it needs, instead of a key.</p>
      <Code
        label="command"
        text={`latchkey access-sessions create -e ${environment} INTEGRATION/CONNECTION --limit-method GET --for 15m`}
      />
    </Empty>
  );
}
