import { type Approval, type ApprovalRequester, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { visibleText } from "../../data/bytes.ts";
import { sessionName } from "../../data/session-labels.ts";

const states: Readonly<Record<ApprovalState, readonly [tone: BadgeTone, word: string]>> = {
  [ApprovalState.UNSPECIFIED]: ["quiet", "Unknown"],
  [ApprovalState.WAITING]: ["warn", "Waiting"],
  [ApprovalState.APPROVED]: ["info", "Approved"],
  [ApprovalState.DENIED]: ["bad", "Denied"],
  [ApprovalState.EXPIRED]: ["quiet", "Expired"],
  [ApprovalState.USED]: ["good", "Sent"],
};

export function ApprovalBadge({ state }: { readonly state: ApprovalState }) {
  const [tone, word] = states[state] ?? (["quiet", "Unknown"] as const);
  return <Badge tone={tone}>{word}</Badge>;
}

/** Returns the requester in a few words. */
export function requesterText(environment: string, requester: ApprovalRequester | undefined): string {
  if (requester === undefined) return "";
  const { key, accessSession, identity, script } = requester;
  if (script !== "") return `Script ${script}`;
  if (accessSession !== "") return visibleText(sessionName(environment, accessSession));
  return identity === "" ? key : `${identity.replaceAll("_", " ")} ${key}`;
}

interface HeldRequestNameProps {
  readonly approval: Approval;
  /** The page is about the caller. */
  readonly isOfCaller?: boolean;
}

/** The tool that is called, or the method with host and path; below it the caller and the connection. */
export const HeldRequestName = ({ approval, isOfCaller = false }: HeldRequestNameProps) => (
  <>
    <code>{visibleText(requestText(approval))}</code>
    <span class="marked-sub">
      {[isOfCaller ? "" : requesterText(approval.environment, approval.requester), connectionText(approval)]
        .filter((text) => text !== "")
        .join(" · ")}
    </span>
  </>
);

export const connectionText = ({ connection }: Approval): string =>
  connection === undefined ? "" : `${connection.integration}/${connection.id}`;

/** A tool, or a method with host and path, without the query. */
function requestText({ method, url, tool }: Approval): string {
  if (tool !== "") return tool;
  const [target = ""] = url.split("?", 1);
  return `${method} ${target.replace(/^https?:\/\//, "")}`;
}
