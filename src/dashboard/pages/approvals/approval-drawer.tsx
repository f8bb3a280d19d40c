import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Approval, type ApprovalContent, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field, Select } from "../../components/field.tsx";
import { Facts, Section } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { hexText, indentedJson, textOf, visibleText } from "../../data/bytes.ts";
import { bytesText, durationText, msOf, now } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { approvals } from "../../state/clients.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { caller } from "../../state/session.ts";
import { ApprovalBadge, requesterText } from "./words.tsx";

interface ApprovalDrawerProps {
  readonly environment: string;
  readonly id: string;
  readonly onChange: () => void;
  readonly onClose: () => void;
}

/** A request as it will be sent, with the buttons that answer it. */
export function ApprovalDrawer({ environment, id, onChange, onClose }: ApprovalDrawerProps) {
  const { value, fault, reload } = useLoad(
    async (signal) => (await approvals.getApproval({ environment, id }, { signal })).approval,
    [environment, id],
  );
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
      {value?.content !== undefined && <SentBody content={value.content} />}
      {isWaiting && value?.longestMemory !== undefined && (
        <Select
          label="Remember the answer"
          value={rememberMs.value}
          onInput={(ms) => (rememberMs.value = ms)}
          help="For so long, the same caller may send requests with this connection, method, host and path, whatever their query and body."
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

const choicesMs = [300_000, 900_000, 3_600_000, 28_800_000];

function memoryChoices(longestMs: number): [value: string, name: string][] {
  const within = [...choicesMs.filter((ms) => ms < longestMs), longestMs];
  return [["0", "No: ask each time"], ...within.map((ms): [string, string] => [String(ms), durationText(ms)])];
}

function ApprovalFacts({ approval }: { readonly approval: Approval }) {
  const { state, policies, requester, connection, method, url, digest, reason, decidedBy } = approval;
  const isWaiting = state === ApprovalState.WAITING;
  return (
    <Facts
      rows={[
        ["State", <ApprovalBadge key="state" state={state} />],
        ["Request", <code key="request">{visibleText(`${method} ${url}`)}</code>],
        ["Asked by", requesterText(requester)],
        [
          "Connection",
          connection && (
            <a key="connection" href={linkTo(pathOf("connections", connection.integration, connection.id))}>
              {connection.integration}/{connection.id}
            </a>
          ),
        ],
        [
          "Policy",
          policies.map(({ id, description }) => (description === "" ? id : `${id}: ${description}`)).join("; "),
        ],
        ["Asked", <Time key="asked" at={approval.createdAt} />],
        [isWaiting ? "No answer is a no" : "Until", <Time key="until" at={approval.expiresAt} />],
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

function SentBody({ content: { body, bodySize } }: { readonly content: ApprovalContent }) {
  if (bodySize === 0n) return null;
  const text = textOf(body);
  return (
    <Section title={`Body, ${bytesText(bodySize)}`}>
      {Number(bodySize) > body.length && (
        <Notice tone="warn">Only the first {bytesText(body.length)} are shown. The rest is sent too.</Notice>
      )}
      <Code label="body" text={text === undefined ? hexText(body) : visibleText(indentedJson(text) ?? text)} />
    </Section>
  );
}

function SentHeaders({ content: { headers } }: { readonly content: ApprovalContent }) {
  if (headers.length === 0) return null;
  return (
    <Section title="Headers">
      <Code label="headers" text={headers.map(({ name, value }) => visibleText(`${name}: ${value}`)).join("\n")} />
    </Section>
  );
}
