import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Approval, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { TabFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../data/bytes.ts";
import { countText } from "../../data/format.ts";
import { usePager } from "../../data/pager.ts";
import { approvals } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { ApprovalDrawer } from "./approval-drawer.tsx";
import { ApprovalBadge, requesterText, requestText } from "./words.tsx";

const pageSize = 50;
const lookEveryMs = 3_000;

const isOpen = (state: ApprovalState): boolean => state === ApprovalState.WAITING || state === ApprovalState.APPROVED;

const columns: readonly TableColumn<Approval>[] = [
  { name: "Request", show: ({ method, url }) => <code>{visibleText(requestText(method, url))}</code> },
  { name: "State", show: ({ state }) => <ApprovalBadge state={state} /> },
  { name: "By", show: ({ requester }) => requesterText(requester) },
  {
    name: "Connection",
    show: ({ connection }) => (connection === undefined ? "" : `${connection.integration}/${connection.id}`),
    isMinor: true,
  },
  { name: "Asked", show: ({ createdAt }) => <Time at={createdAt} />, isMinor: true },
  { name: "Until", show: ({ state, expiresAt }) => (isOpen(state) ? <Time at={expiresAt} /> : "") },
];

/** Requests that policies hold for a person: those that wait, and those that were answered. */
export function ApprovalsPage() {
  const environment = environmentName.value;
  const isHistory = queryValue("show") === "all";
  const chosen = queryValue("approval");
  const waiting = useSignal(0);
  const pager = usePager(
    async (pageToken, signal) => {
      const state = isHistory ? ApprovalState.UNSPECIFIED : ApprovalState.WAITING;
      const page = await approvals.listApprovals({ environment, state, pageToken, pageSize }, { signal });
      waiting.value = page.waiting;
      return { items: page.approvals, nextPageToken: page.nextPageToken };
    },
    [environment, isHistory],
  );
  useEffect(() => {
    const timer = setInterval(() => {
      // Further pages that a person has opened stay.
      if (!document.hidden && (pager.items?.length ?? 0) <= pageSize) pager.reload();
    }, lookEveryMs);
    return () => clearInterval(timer);
  }, [pager.items?.length]);
  return (
    <PageFrame title="Approvals" lead="Requests that policies hold until a person has answered. No answer is a no.">
      <TabFilter
        name="show"
        label="Approvals"
        options={[
          ["", "Waiting", waiting.value === 0 ? undefined : countText(waiting.value)],
          ["all", "All of the last 14 days"],
        ].map(([value = "", text = "", count]) => (count === undefined ? [value, text] : [value, text, count]))}
      />
      <PagedTable
        label="Approvals"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo("/approvals", { show: isHistory ? "all" : undefined, approval: id })}
        empty={
          <Empty title={isHistory ? "No request was held" : "No request waits for you"}>
            <p>A policy with the effect hold makes requests wait here.</p>
          </Empty>
        }
      />
      {chosen !== "" && (
        <ApprovalDrawer
          key={chosen}
          environment={environment}
          id={chosen}
          onChange={pager.reload}
          onClose={() => setQuery({ approval: "" })}
        />
      )}
    </PageFrame>
  );
}
