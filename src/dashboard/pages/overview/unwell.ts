import {
  Connection_State,
  type ConnectionCount,
  type CountConnectionsResponse,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Warning, Warning_Severity, Warning_Subject } from "../../../gen/latchkey/v1/system_pb.ts";
import type { BadgeTone } from "../../components/badge.tsx";
import { counted, words } from "../../data/format.ts";
import { linkTo, pathOf } from "../../state/router.ts";

/** Something that a person should mend, and where. */
export interface UnwellLine {
  readonly id: string;
  readonly tone: BadgeTone;
  /** How urgent it is, in a word. */
  readonly urgency: string;
  readonly text: string;
  /** What to do. */
  readonly remedy: string;
  /** Set if it is not the environment that the page shows. */
  readonly environment: string;
  readonly verb: string;
  readonly link: string;
}

const rank: Readonly<Record<string, number>> = { bad: 0, warn: 1, info: 2 };

/** The most urgent first; among equals, in the order given. */
export const inOrder = (lines: readonly UnwellLine[]): readonly UnwellLine[] =>
  lines.toSorted((one, other) => (rank[one.tone] ?? 3) - (rank[other.tone] ?? 3));

const stateNames: Partial<Record<Connection_State, string>> = {
  [Connection_State.REAUTHORIZATION_REQUIRED]: "reauthorization_required",
  [Connection_State.REFRESH_FAILING]: "refresh_failing",
  [Connection_State.EXPIRING]: "expiring",
};

/** A line for each state and reason of an integration's connections. */
export function unwellConnections({ counts }: CountConnectionsResponse): UnwellLine[] {
  const unwell = counts.filter(({ state }) => stateNames[state] !== undefined);
  return unwell.toSorted((one, other) => other.count - one.count).map(connectionLine);
}

function connectionLine({ integration, state, stateReason, count }: ConnectionCount): UnwellLine {
  const name = stateNames[state] ?? "";
  const many = counted(count, "connection");
  const reason = stateReason === "" ? "" : `: ${words(stateReason).toLowerCase()}`;
  const isDead = state === Connection_State.REAUTHORIZATION_REQUIRED;
  return {
    id: `connections ${integration} ${name} ${stateReason}`,
    tone: isDead ? "bad" : "warn",
    urgency: isDead ? "Broken" : "Soon",
    text: `${many} of ${integration} ${predicateOf(state, count)}${reason}`,
    remedy: isDead ? connectAgain(count) : "",
    environment: "",
    verb: isDead ? "Reconnect" : "Look at them",
    link: linkTo("/connections", { state: name, reason: stateReason, integration }),
  };
}

const connectAgain = (count: number): string =>
  count === 1 ? "Its user must connect it again." : "Their users must connect them again.";

function predicateOf(state: Connection_State, count: number): string {
  const isOne = count === 1;
  if (state === Connection_State.REFRESH_FAILING) return isOne ? "fails to refresh" : "fail to refresh";
  if (state === Connection_State.EXPIRING) return isOne ? "expires soon" : "expire soon";
  return isOne ? "no longer works" : "no longer work";
}

const places: Partial<Record<Warning_Subject, readonly [verb: string, path: string]>> = {
  [Warning_Subject.STORE]: ["Open system", "/system"],
  [Warning_Subject.CONFIG]: ["Open system", "/system"],
  [Warning_Subject.REPLICA]: ["Open system", "/system"],
  [Warning_Subject.KEY]: ["Open keys", "/environments"],
  [Warning_Subject.ENVIRONMENT]: ["Open environments", "/environments"],
  [Warning_Subject.DESTINATION]: ["Open destinations", "/destinations"],
  [Warning_Subject.CHANNEL]: ["Open channels", "/channels"],
};

export function warningLine(warning: Warning, shown: string): UnwellLine {
  const { severity, code, message, remedy, environment, subject, name } = warning;
  const isCritical = severity === Warning_Severity.CRITICAL;
  const isNotice = severity === Warning_Severity.NOTICE;
  const [verb, path] =
    subject === Warning_Subject.INTEGRATION ? integrationPlace(name) : (places[subject] ?? elsewhere);
  return {
    id: `warning ${environment} ${code} ${subject} ${name}`,
    tone: isCritical ? "bad" : isNotice ? "info" : "warn",
    urgency: isCritical ? "Broken" : isNotice ? "Advice" : "Warning",
    text: sentence(message),
    remedy: remedy === "" ? "" : sentence(remedy),
    environment: environment === shown ? "" : environment,
    verb,
    link: linkTo(path, environment === "" ? {} : { env: environment }),
  };
}

const elsewhere = ["Open system", "/system"] as const;
const integrationPlace = (name: string) => [`Open ${name}`, pathOf("integrations", name)] as const;

const sentence = (text: string) =>
  (/[.!?]$/.test(text) ? text : `${text}.`).replace(/^./, (first) => first.toUpperCase());

/** `isMore`: there are more than were counted. */
export function deadLine(count: number, isMore: boolean): UnwellLine {
  const many = isMore
    ? `More than ${counted(count, "delivery", "deliveries")}`
    : counted(count, "delivery", "deliveries");
  return {
    id: "dead deliveries",
    tone: "bad",
    urgency: "Broken",
    text: `${many} of the last 7 days never reached your application`,
    remedy: "All attempts failed. Replay them once your application answers again.",
    environment: "",
    verb: "Replay them",
    link: linkTo("/webhooks/deliveries", { state: "dead" }),
  };
}
