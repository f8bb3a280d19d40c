import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Approval, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Button, scopeName } from "../../components/button.tsx";
import { TabFilter } from "../../components/filters.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty, Notice } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { counted, countText } from "../../data/format.ts";
import { usePager } from "../../data/pager.ts";
import { useSessionLabels } from "../../data/session-labels.ts";
import { approvals } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { ApprovalDrawer } from "./approval-drawer.tsx";
import { useLiveApprovals } from "./live-approvals.ts";
import { ApprovalBadge, HeldRequestName } from "./words.tsx";

const pageSize = 50;

const request: TableColumn<Approval> = {
  name: "Request",
  show: (approval) => <HeldRequestName approval={approval} />,
};
const asked: TableColumn<Approval> = {
  name: "Asked",
  show: ({ createdAt }) => <Time at={createdAt} />,
  isMinor: true,
};
const waitingColumns: readonly TableColumn<Approval>[] = [
  request,
  asked,
  { name: "Expires", show: ({ expiresAt }) => <Time at={expiresAt} /> },
];
const allColumns: readonly TableColumn<Approval>[] = [
  request,
  { name: "State", show: ({ state }) => <ApprovalBadge state={state} /> },
  { name: "Answered by", show: ({ decidedBy }) => decidedBy, isMinor: true },
  asked,
];

/** Requests that policies hold for a person: those that wait, and those that were answered. */
export function ApprovalsPage() {
  const environment = environmentName.value;
  const isHistory = queryValue("show") === "all";
  const isLive = queryValue("live") !== "off";
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
  const live = useLiveApprovals({
    environment,
    pager,
    isWanted: ({ state }) => isHistory || state === ApprovalState.WAITING,
    onCount: (count) => (waiting.value = count),
    isOn: isLive,
  });
  useSessionLabels(environment, pager.items?.map(({ requester }) => requester?.accessSession ?? "") ?? []);
  const waitingTab = ["", "Waiting"] as const;
  return (
    <PageFrame
      title="Approvals"
      lead="Requests that policies hold until a person has answered. No answer is a no."
      actions={
        <LiveSwitch state={live.state} isOn={isLive} onChange={(isOn) => setQuery({ live: isOn ? "" : "off" })} />
      }
    >
      {!may(Scope.APPROVALS_DECIDE) && (
        <Notice>
          You see requests of your own key, and cannot answer them. That needs another key with the scope{" "}
          <code>{scopeName(Scope.APPROVALS_DECIDE)}</code>.
        </Notice>
      )}
      <TabFilter
        name="show"
        label="Approvals"
        options={[
          waiting.value === 0 ? waitingTab : [...waitingTab, countText(waiting.value)],
          ["all", "All of the last 14 days"],
        ]}
      />
      {live.newCount > 0 && (
        <p class="fresh-rows">
          <Button
            isSmall
            onClick={() => {
              live.show();
              window.scrollTo(0, 0);
            }}
          >
            Show {counted(live.newCount, "new request")}
          </Button>
        </p>
      )}
      <PagedTable
        label="Approvals"
        pager={pager}
        columns={isHistory ? allColumns : waitingColumns}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo("/approvals", { show: isHistory ? "all" : undefined, approval: id })}
        empty={<NoApprovals isHistory={isHistory} />}
      />
      {chosen !== "" && (
        <ApprovalDrawer
          key={chosen}
          environment={environment}
          id={chosen}
          revision={live.changed?.id === chosen ? live.changed.revision : 0n}
          onChange={pager.reload}
          onClose={() => setQuery({ approval: "" })}
        />
      )}
    </PageFrame>
  );
}

const NoApprovals = ({ isHistory }: { readonly isHistory: boolean }) => (
  <Empty title={isHistory ? "No request was held" : "No request waits"}>
    <p>
      Requests come here by a policy with the effect <code>hold</code>, which{" "}
      <code>latchkey policies create --effect hold</code> makes.
      {!isHistory && " New ones appear by themselves."}
    </p>
  </Empty>
);
