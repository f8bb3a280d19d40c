import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import {
  type AccessSession,
  AccessSessionState,
  type ExplainAccessSessionResponse,
} from "../../../gen/latchkey/v1/access_session_pb.ts";
import type { Approval } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Button } from "../../components/button.tsx";
import { PageFrame, Section } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { capitalized } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { usePoll } from "../../data/poll.ts";
import { accessSessions, approvals } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo } from "../../state/router.ts";
import { ApprovalBadge, HeldRequestName } from "../approvals/words.tsx";
import { EndSession } from "./end-session.tsx";
import { Permissions } from "./permissions.tsx";
import { SessionFacts } from "./session-facts.tsx";
import { SessionBadge, sessionTitle } from "./session-words.tsx";
import { ToolsUsed } from "./tools-used.tsx";

const lookEveryMs = 5_000;
const shownApprovals = 10;

interface WholeSession {
  readonly explained: ExplainAccessSessionResponse;
  readonly session: AccessSession;
  readonly approvals: readonly Approval[];
}

async function read(environment: string, id: string, signal: AbortSignal): Promise<WholeSession> {
  const [explained, held] = await Promise.all([
    accessSessions.explainAccessSession({ environment, id }, { signal }),
    approvals.listApprovals({ environment, accessSession: id, pageSize: shownApprovals }, { signal }),
  ]);
  if (explained.session === undefined) throw new Error("the answer holds no session");
  return { explained, session: explained.session, approvals: held.approvals };
}

/** An access session: what it may do, what it did, and what of it waits for a person. */
export function SessionPage({ values: { id = "" } }: PageProps) {
  const environment = environmentName.value;
  const { value, fault, reload } = useLoad((signal) => read(environment, id, signal), [environment, id]);
  const isEnding = useSignal(false);
  const isActive = value?.session.state === AccessSessionState.ACTIVE;
  usePoll(() => {
    if (isActive) reload();
  }, lookEveryMs);
  const above = [["Access sessions", linkTo("/access-sessions")]] as const;
  if (value === undefined) {
    return (
      <PageFrame title={`Session ${id.slice(0, 8)}…`} above={above}>
        {fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />}
      </PageFrame>
    );
  }
  const { session, explained } = value;
  return (
    <PageFrame
      title={
        <>
          {sessionTitle(session)} <SessionBadge state={session.state} />
        </>
      }
      above={above}
      lead={<code>{session.id}</code>}
      actions={
        isActive && (
          <Button kind="danger" needs={Scope.CONNECTIONS_WRITE} onClick={() => (isEnding.value = true)}>
            End session
          </Button>
        )
      }
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {explained.refusal !== "" && <Notice tone="warn">{capitalized(explained.refusal)}.</Notice>}
      <div class="columns session-columns">
        <div>
          <Permissions explained={explained} />
          <ToolsUsed use={session.use} />
          <HeldRequests approvals={value.approvals} />
        </div>
        <SessionFacts session={session} scopes={explained.scopes} />
      </div>
      {isEnding.value && <EndSession session={session} onEnd={reload} onClose={() => (isEnding.value = false)} />}
    </PageFrame>
  );
}

const approvalColumns: readonly TableColumn<Approval>[] = [
  { name: "Request", show: (approval) => <HeldRequestName approval={approval} isOfCaller /> },
  { name: "State", show: ({ state }) => <ApprovalBadge state={state} /> },
  { name: "Asked", show: ({ createdAt }) => <Time at={createdAt} />, isMinor: true },
];

const HeldRequests = ({ approvals: held }: { readonly approvals: readonly Approval[] }) => (
  <Section title="Approvals" actions={<a href={linkTo("/approvals", { show: "all" })}>Show all</a>}>
    {held.length === 0 ? (
      <p class="quiet">No policy has held a request of it.</p>
    ) : (
      <Table
        label="Approvals"
        columns={approvalColumns}
        rows={held}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo("/approvals", { show: "all", approval: id })}
      />
    )}
  </Section>
);
