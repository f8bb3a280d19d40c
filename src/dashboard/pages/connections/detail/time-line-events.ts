import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Channel, Channel_State } from "../../../../gen/latchkey/v1/channel_pb.ts";
import type { AuditEvent, Log } from "../../../../gen/latchkey/v1/log_pb.ts";
import { type Run, Run_State } from "../../../../gen/latchkey/v1/sync_pb.ts";
import type { RecentRequest } from "../../../../gen/latchkey/v1/traffic_pb.ts";
import type { Notification } from "../../../../gen/latchkey/v1/webhook_pb.ts";
import { counted, msOf, words } from "../../../data/format.ts";
import { linkTo, pathOf } from "../../../state/router.ts";
import { causesIn, type LoggedCause } from "./health-notice.tsx";

export type EventKind = "credentials" | "requests" | "webhooks" | "channels" | "runs" | "changes";

/** Something that happened to a connection. */
export interface TimeLineEvent {
  readonly id: string;
  readonly at: number;
  readonly kind: EventKind;
  readonly title: string;
  readonly detail?: string;
  readonly causes?: readonly LoggedCause[];
  readonly isBad: boolean;
  readonly link?: string;
}

const time = (at: Timestamp | undefined): number => msOf(at) ?? 0;

const operations: Readonly<Record<string, readonly [done: string, failed: string]>> = {
  "auth.authorize": ["The end user authorized the connection", "An authorization failed"],
  "auth.refresh": ["The credentials were refreshed", "A refresh failed"],
  "auth.expire": ["The credentials were checked", "The credentials expired"],
  "auth.grants": ["The grants of the account were counted", "The account has too many grants"],
  "connection.describe": ["The provider was asked about the account", "The provider could not be asked"],
};

export function eventOfLog(log: Log): TimeLineEvent {
  const { id, operation, failed, createdAt } = log;
  const [done, wrong] = operations[operation] ?? [words(operation.replaceAll(".", " ")), undefined];
  const telling = log.lines.findLast(({ level }) => level === (failed ? "error" : "warn")) ?? log.lines.at(-1);
  const causes = causesIn(log);
  const isCause = telling !== undefined && /^(?:likely|possible) cause$/.test(telling.message);
  const code = telling?.fields?.["code"];
  return {
    id: `log ${id}`,
    at: time(createdAt),
    kind: operation.startsWith("auth.") || operation.startsWith("connection.") ? "credentials" : "runs",
    title: failed ? (wrong ?? `${done}: failed`) : done,
    ...(telling !== undefined &&
      !isCause && { detail: `${telling.message}${typeof code === "string" && code !== "" ? ` (${code})` : ""}` }),
    ...(causes.length > 0 && { causes }),
    isBad: failed,
    link: linkTo(pathOf("logs", id)),
  };
}

export function eventOfNotification({ id, kinds, receivedAt, matches }: Notification): TimeLineEvent {
  const what = kinds.join(", ");
  return {
    id: `webhook ${id}`,
    at: time(receivedAt),
    kind: "webhooks",
    title: what === "" ? "A webhook came" : `A webhook came: ${what}`,
    ...(matches.length > 1 && { detail: `It concerns ${matches.length} connections` }),
    isBad: false,
    link: linkTo(pathOf("webhooks", id)),
  };
}

const runTitles: Readonly<Partial<Record<Run_State, string>>> = {
  [Run_State.QUEUED]: "waits",
  [Run_State.RUNNING]: "runs",
  [Run_State.SUCCEEDED]: "succeeded",
  [Run_State.FAILED]: "failed",
  [Run_State.CANCELLED]: "was cancelled",
  [Run_State.INTERRUPTED]: "was interrupted",
};

export function eventOfRun({ id, script, state, startedAt, dueAt, problem, cause }: Run): TimeLineEvent {
  const reason = problem?.message;
  return {
    id: `run ${id}`,
    at: time(startedAt ?? dueAt),
    kind: "runs",
    title: `${script} ${runTitles[state] ?? "ran"}`,
    detail: reason || `Started by: ${words(cause).toLowerCase()}`,
    isBad: state === Run_State.FAILED || state === Run_State.INTERRUPTED,
    link: linkTo(pathOf("runs", id)),
  };
}

/** The beginning of a channel, and its end if it has ended. */
export function eventsOfChannel(channel: Channel): readonly TimeLineEvent[] {
  const { id, state, stateReason, resource, resourceKind, createdAt, updatedAt, expiresAt, previousId } = channel;
  const what = resource || resourceKind || "notifications";
  const { integration, id: connection } = channel.connection ?? {};
  const link = linkTo("/channels", { integration, connection });
  const kind = "channels";
  const begin: TimeLineEvent = {
    id: `channel ${id}`,
    at: time(createdAt),
    kind,
    title: `${previousId === "" ? "A channel was created" : "A channel was renewed"}: ${what}`,
    isBad: false,
    link,
  };
  const ended = state === Channel_State.STOPPED || state === Channel_State.EXPIRED || state === Channel_State.FAILED;
  if (!ended) return [begin];
  const isBad = state !== Channel_State.STOPPED;
  const word = state === Channel_State.STOPPED ? "was stopped" : state === Channel_State.EXPIRED ? "expired" : "failed";
  const end: TimeLineEvent = {
    id: `channel end ${id}`,
    at: time(state === Channel_State.EXPIRED ? (expiresAt ?? updatedAt) : updatedAt),
    kind,
    title: `A channel ${word}: ${what}`,
    ...(stateReason !== "" && { detail: words(stateReason) }),
    isBad,
    link,
  };
  return [begin, end];
}

const actions: Readonly<Record<string, string>> = {
  "connection.import": "The connection was imported",
  "connection.authorize": "The connection was stored after an authorization",
  "connection.update": "The connection was changed",
  "connection.metadata": "The metadata was changed",
  "connection.delete": "The connection was deleted",
  "connection.describe": "Details from the provider were added",
};

export const eventOfChange = ({ id, at, action, actor, fields }: AuditEvent): TimeLineEvent => ({
  id: `audit ${id}`,
  at: time(at),
  kind: "changes",
  title: actions[action] ?? words(action.replaceAll(".", " ")),
  detail: `By ${actor}${fields.length > 0 ? `: ${fields.join(", ")}` : ""}`,
  isBad: false,
});

/** Requests of one key with shorter pauses are one event. */
const togetherMs = 5 * 60_000;

/** Uses of the connection, from requests in the order of time, newest first. */
export function eventsOfRequests(requests: readonly RecentRequest[]): readonly TimeLineEvent[] {
  const groups: RecentRequest[][] = [];
  for (const request of requests) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    const isNear = last !== undefined && time(last.at) - time(request.at) < togetherMs;
    if (group !== undefined && isNear && last.keyId === request.keyId) group.push(request);
    else groups.push([request]);
  }
  return groups.flatMap(eventOfUses);
}

const hasFailed = ({ status, errorCode }: RecentRequest): boolean => status >= 400 || errorCode !== "";

function eventOfUses(uses: readonly RecentRequest[]): readonly TimeLineEvent[] {
  const [latest] = uses;
  if (latest === undefined) return [];
  const { connection, keyId, method, path, status, errorCode, number } = latest;
  const failed = uses.filter(hasFailed).length;
  const what = `${method} ${path}: ${errorCode || status}`;
  const some = failed === 0 ? what : `${counted(failed, "request")} failed; the last: ${what}`;
  return [
    {
      id: `request ${number}`,
      at: time(latest.at),
      kind: "requests",
      title: uses.length === 1 ? what : `${counted(uses.length, "request")} by ${keyId}`,
      detail: uses.length === 1 ? `By ${keyId}` : some,
      isBad: failed > 0,
      link: linkTo("/requests", { integration: connection?.integration, connection: connection?.id, key: keyId }),
    },
  ];
}
