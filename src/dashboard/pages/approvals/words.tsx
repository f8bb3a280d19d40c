import { type ApprovalRequester, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";

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
export function requesterText(requester: ApprovalRequester | undefined): string {
  if (requester === undefined) return "";
  const { key, accessSession, identity, script } = requester;
  if (script !== "") return `Script ${script}`;
  if (accessSession !== "") return `Session ${accessSession.slice(0, 8)}… of ${key}`;
  return identity === "" ? key : `${identity.replaceAll("_", " ")} ${key}`;
}

/** A method with host and path, without the query. */
export function requestText(method: string, url: string): string {
  const [target = ""] = url.split("?", 1);
  return `${method} ${target.replace(/^https?:\/\//, "")}`;
}
