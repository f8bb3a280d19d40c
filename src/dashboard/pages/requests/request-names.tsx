import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { RecentRequest } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { clockTime, exactTime, msOf } from "../../data/format.ts";
import { linkTo, pathOf } from "../../state/router.ts";

function toneOf({ status, errorCode, tunnel }: RecentRequest): BadgeTone {
  if (errorCode !== "" || status >= 500) return "bad";
  if (status === 0 || status >= 400) return "warn";
  return tunnel ? "info" : "good";
}

function textOf({ status, tunnel }: RecentRequest): string {
  if (status === 0) return "Caller left";
  return tunnel && status === 101 ? "WebSocket" : String(status);
}

/** The status, and whether Latchkey answered in place of the provider. */
export const RequestStatus = ({ request }: { readonly request: RecentRequest }) => (
  <Badge tone={toneOf(request)} title={request.errorCode === "" ? "" : "Latchkey answered, not the provider"}>
    {textOf(request)}
    {request.errorCode !== "" && ` ${request.errorCode}`}
  </Badge>
);

export const RequestLine = ({ request }: { readonly request: RecentRequest }) => (
  <span class="request-line" title={pathText(request)}>
    <b>{request.method}</b> {pathText(request)}
  </span>
);

/** The query is not kept: it may hold secrets. */
export const pathText = ({ path, hasQuery }: RecentRequest): string => (hasQuery ? `${path}?…` : path);

/** Many requests end in the same second: an age would say nothing. */
export function RequestTime({ request }: { readonly request: RecentRequest }) {
  const ms = msOf(request.at) ?? 0;
  return (
    <time dateTime={new Date(ms).toISOString()} title={exactTime(ms)}>
      {clockTime(ms)}
    </time>
  );
}

export const ConnectionLink = ({ connection }: { readonly connection: ConnectionRef | undefined }) =>
  connection === undefined ? null : (
    <a href={linkTo(pathOf("connections", connection.integration, connection.id))}>
      {connection.integration}/{connection.id}
    </a>
  );
