import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Approval, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field, Select } from "../../components/field.tsx";
import { Facts } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { visibleText } from "../../data/bytes.ts";
import { durationText, msOf, now } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { useSessionLabels } from "../../data/session-labels.ts";
import { approvals } from "../../state/clients.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { caller } from "../../state/session.ts";
import { SentBody, SentHeaders, ToolArguments } from "./sent-request.tsx";
import { ApprovalBadge, connectionText, requesterText } from "./words.tsx";

interface ApprovalDrawerProps {
  readonly environment: string;
  readonly id: string;
  /** Store revision that the page has seen: another one is read again. */
  readonly revision: bigint;
  readonly onChange: () => void;
  readonly onClose: () => void;
}

/** A request as it will be sent, with the buttons that answer it. */
export function ApprovalDrawer({ environment, id, revision, onChange, onClose }: ApprovalDrawerProps) {
  const { value, fault, reload } = useLoad(
    async (signal) => (await approvals.getApproval({ environment, id }, { signal })).approval,
    [environment, id, revision],
  );
  useSessionLabels(environment, [value?.requester?.accessSession ?? ""]);
  const reason = useSignal("");
  const rememberMs = useSignal("0");
  const acting = useAct({ isQuiet: true });
  const answer = (work: () => Promise<unknown>, done: string) =>
    acting.run(async () => {
      await work();
      onChange();
      reload();
    }, done);
  const deny = () => answer(() => approvals.denyApproval({ environment, id, reason: reason.value }), "Denied");
  const approve = (digest: string) => {
    const ms = Number(rememberMs.value);
    const remember = ms === 0 ? {} : { remember: durationFromMs(ms) };
    const request = { environment, id, digest, reason: reason.value, ...remember };
    return answer(() => approvals.grantApproval(request), "Approved: it can be sent once");
  };
  const isWaiting = value?.state === ApprovalState.WAITING;
  const isOwn = value?.requester?.key !== "" && value?.requester?.key === caller.value?.keyId;
  return (
    <Dialog
      title="Held request"
      isDrawer
      isWide
      onClose={onClose}
      actions={
        value !== undefined && (
          <>
            {mayTakeBack(value) && (
              <Button
                kind={isWaiting ? "plain" : "danger"}
                needs={Scope.APPROVALS_DECIDE}
                isBusy={acting.isBusy}
                onClick={() => void deny()}
              >
                {isWaiting ? "Deny" : "Take back"}
              </Button>
            )}
            {isWaiting && (
              <Button
                kind="primary"
                needs={Scope.APPROVALS_DECIDE}
                isBusy={acting.isBusy}
                onClick={() => void approve(value.digest)}
              >
                Approve
              </Button>
            )}
          </>
        )
      }
    >
      {value === undefined && (fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />)}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
      {value !== undefined && isWaiting && isOwn && (
        <Notice tone="warn">This is a request of your own. Another person has to answer it.</Notice>
      )}
      {value !== undefined && <ApprovalFacts approval={value} />}
      {value !== undefined && <ToolArguments approval={value} />}
      {value?.content !== undefined && (
        <SentBody content={value.content} title={value.tool === "" ? "Body" : "Whole message"} />
      )}
      {isWaiting && value?.longestMemory !== undefined && (
        <Select
          label="Remember the answer"
          value={rememberMs.value}
          onInput={(ms) => (rememberMs.value = ms)}
          help={memoryHelp(value)}
          options={memoryChoices(durationMs(value.longestMemory))}
        />
      )}
      {isWaiting && (
        <Field
          label="Reason"
          value={reason.value}
          onInput={(text) => (reason.value = text)}
          help="The caller of the request sees it."
        />
      )}
      {value?.content !== undefined && <SentHeaders content={value.content} />}
    </Dialog>
  );
}

/** An approval that was not used yet, or one that lets other requests through. */
const mayTakeBack = ({ state, rememberedUntil }: Approval): boolean =>
  state === ApprovalState.WAITING ||
  state === ApprovalState.APPROVED ||
  (state === ApprovalState.USED && (msOf(rememberedUntil) ?? 0) > now.value);

const memoryHelp = ({ tool }: Approval): string =>
  tool === ""
    ? "For this time, the same caller may send requests with this connection, method, host and path, with any query and body."
    : `For this time, the same caller may call ${visibleText(tool)} with this connection and any arguments.`;

const choicesMs = [300_000, 900_000, 3_600_000, 28_800_000];

function memoryChoices(longestMs: number): [value: string, name: string][] {
  const within = [...choicesMs.filter((ms) => ms < longestMs), longestMs];
  return [["0", "No: ask each time"], ...within.map((ms): [string, string] => [String(ms), durationText(ms)])];
}

function ApprovalFacts({ approval }: { readonly approval: Approval }) {
  const { state, policies, connection, method, url, tool, digest, reason, decidedBy } = approval;
  const isOpen = state === ApprovalState.WAITING || state === ApprovalState.APPROVED;
  return (
    <Facts
      rows={[
        ["State", <ApprovalBadge key="state" state={state} />],
        ["Tool", tool !== "" && <code key="tool">{visibleText(tool)}</code>],
        ["Request", <code key="request">{visibleText(`${method} ${url}`)}</code>],
        ["Asked by", <Requester key="requester" approval={approval} />],
        [
          "Connection",
          connection && (
            <a key="connection" href={linkTo(pathOf("connections", connection.integration, connection.id))}>
              {connectionText(approval)}
            </a>
          ),
        ],
        [
          "Held by",
          policies.map(({ id, description }) => (
            <p key={id}>
              <code>{id}</code> {visibleText(description)}
            </p>
          )),
        ],
        ["Asked", <Time key="asked" at={approval.createdAt} />],
        ["Expires", isOpen && <Time key="expires" at={approval.expiresAt} />],
        ["Answered by", decidedBy],
        ["Reason", visibleText(reason)],
        ["Answered", approval.decidedAt && <Time key="answered" at={approval.decidedAt} />],
        ["Sent", approval.usedAt && <Time key="sent" at={approval.usedAt} />],
        ["Remembered until", approval.rememberedUntil && <Time key="remembered" at={approval.rememberedUntil} />],
        ["SHA-256", <code key="digest">{digest}</code>],
      ]}
    />
  );
}

function Requester({ approval: { environment, requester } }: { readonly approval: Approval }) {
  const { accessSession = "", key = "" } = requester ?? {};
  if (accessSession === "") return <>{requesterText(environment, requester)}</>;
  return (
    <>
      <a href={linkTo(pathOf("access-sessions", accessSession))}>{requesterText(environment, requester)}</a>
      <span class="marked-sub">Access session of {key}</span>
    </>
  );
}
