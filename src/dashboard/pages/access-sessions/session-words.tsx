import type { LimitedConnection } from "../../../gen/latchkey/v1/access_pb.ts";
import { type AccessSession, AccessSessionState } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { visibleText } from "../../data/bytes.ts";
import { countText } from "../../data/format.ts";
import { unlabelled } from "../../data/session-labels.ts";

const states: Readonly<Record<AccessSessionState, readonly [tone: BadgeTone, word: string]>> = {
  [AccessSessionState.UNSPECIFIED]: ["quiet", "Unknown"],
  [AccessSessionState.ACTIVE]: ["good", "Active"],
  [AccessSessionState.EXPIRED]: ["quiet", "Expired"],
  [AccessSessionState.ENDED]: ["quiet", "Ended"],
};

export function SessionBadge({ state }: { readonly state: AccessSessionState }) {
  const [tone, word] = states[state] ?? (["quiet", "Unknown"] as const);
  return <Badge tone={tone}>{word}</Badge>;
}

/** The label, or the beginning of the ID. */
export const sessionTitle = ({ label, id }: Pick<AccessSession, "label" | "id">): string =>
  label === "" ? unlabelled(id) : visibleText(label);

export const limitText = ({ integration, id }: LimitedConnection): string =>
  id === "" ? `All of ${integration}` : `${integration}/${id}`;

/** The first connections of a session: a list has no room for more. */
export function limitsText({ limits }: Pick<AccessSession, "limits">): string {
  const all = (limits?.connections ?? []).map(limitText);
  return all.length > 2 ? `${all.slice(0, 2).join(", ")} and ${all.length - 2} more` : all.join(", ");
}

/** Requests that were sent, and how many may be. */
export function requestsText({ use, budget }: Pick<AccessSession, "use" | "budget">): string {
  const sent = countText(use?.requests ?? 0n);
  return budget === 0n ? sent : `${sent} of ${countText(budget)}`;
}
