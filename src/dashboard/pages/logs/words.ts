/** Logs in words. */
import type { Log } from "../../../gen/latchkey/v1/log_pb.ts";
import { words } from "../../data/format.ts";

const operations: Readonly<Record<string, string>> = {
  "auth.authorize": "Authorization",
  "auth.refresh": "Refresh",
  "auth.expire": "Expiry of credentials",
  "auth.grants": "Limit of grants",
  "connection.describe": "Description of a connection",
  "script.sync": "Sync run",
  "script.action": "Action run",
  "script.event": "Event script run",
  "sync.catch_up": "Catch-up of a sync",
};

/** "Refresh", "Channel: expiring". */
export function operationText(operation: string): string {
  const known = operations[operation];
  if (known !== undefined) return known;
  const [group = "", ...rest] = operation.split(".");
  return rest.length === 0 ? words(group) : `${words(group)}: ${words(rest.join(" ")).toLowerCase()}`;
}

/** Groups of operations, for the filter. */
export const kinds = [
  ["auth", "Authorizations and refreshes"],
  ["script", "Script runs"],
  ["channel", "Channels"],
  ["connection", "Descriptions"],
  ["sync", "Catch-ups"],
] as const;

export const levels = [
  ["info", "info and worse"],
  ["warn", "warnings and worse"],
  ["error", "errors"],
] as const;

export const subjectText = ({ integration, connectionId }: Log): string =>
  connectionId === "" ? integration : `${integration}/${connectionId}`;

/** Returns the most severe line, or else the last one. Among equally severe ones, the last knew most. */
export function gistOf({ lines }: Log): string {
  const worst = lines.findLast(({ level }) => level === "error") ?? lines.findLast(({ level }) => level === "warn");
  const line = worst ?? lines.at(-1);
  if (line === undefined) return "";
  const { message: said, reason, code } = line.fields ?? {};
  if (line.message === "the script says" && typeof said === "string") return said;
  const why = reason ?? code;
  return typeof why === "string" ? `${line.message} (${why})` : line.message;
}
