import { timestampMs } from "@bufbuild/protobuf/wkt";
import { sequentialIdsFrom } from "../../base/ids.ts";
import type { Log, LogLine } from "../../gen/latchkey/v1/log_pb.ts";
import { keyOf } from "../../store/keys.ts";
import type { PageRequest, PositionedRecord } from "../../store/records.ts";
import type { LogCollections } from "./log-collections.ts";

/** Which logs are wanted. Empty texts mean any. */
export interface LogFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  /** An operation such as `auth.refresh`, or a group of them: `auth`. */
  readonly operation: string;
  readonly failed: boolean;
  /** Text in a message or field of a line, in any case. */
  readonly text?: string;
  /** The least severe level that a line must have. */
  readonly level?: string;
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
}

export interface LogSource {
  readonly read: (request: Pick<PageRequest, "after" | "limit">) => Promise<readonly PositionedRecord<Log>[]>;
  /** Position where the list begins, if not at the newest log. */
  readonly start: string | undefined;
}

export const begunAt = ({ createdAt }: Log): number => (createdAt === undefined ? 0 : timestampMs(createdAt));

/** Picks the narrowest index for the filter, newest first. */
export function logSource({ logs }: LogCollections, filter: LogFilter): LogSource {
  const { environment, integration, connectionId, operation, failed, untilMs } = filter;
  const newest = untilMs === undefined ? undefined : sequentialIdsFrom(untilMs);
  const by = (index: "connection" | "integration" | "operation" | "failed", under: readonly string[]): LogSource => ({
    read: (request) => logs.pageBy(index, { under, reverse: true, ...request }),
    // A secondary key ends in the primary key.
    start: newest === undefined ? undefined : keyOf(environment, newest),
  });
  if (integration !== "" && connectionId !== "") return by("connection", [environment, integration, connectionId]);
  if (integration !== "") return by("integration", [environment, integration]);
  if (failed) return by("failed", [environment]);
  if (operation.includes(".")) return by("operation", [environment, operation]);
  return { read: (request) => logs.page({ under: [environment], reverse: true, ...request }), start: newest };
}

const levels: readonly string[] = ["debug", "info", "warn", "error"];

/** Returns a test for the logs that a filter wants. */
export function logMatcher(filter: LogFilter): (log: Log) => boolean {
  const { integration, connectionId, operation, failed, text = "", level = "", untilMs } = filter;
  const wanted = text.toLowerCase();
  const leastLevel = levels.indexOf(level);
  return (log) =>
    (integration === "" || log.integration === integration) &&
    (connectionId === "" || log.connectionId === connectionId) &&
    (operation === "" || log.operation === operation || log.operation.startsWith(`${operation}.`)) &&
    (!failed || log.failed) &&
    (untilMs === undefined || begunAt(log) < untilMs) &&
    (leastLevel <= 0 || log.lines.some((line) => levels.indexOf(line.level) >= leastLevel)) &&
    (wanted === "" || log.lines.some((line) => isIn(line, wanted)));
}

const isIn = ({ message, fields = {} }: LogLine, wanted: string): boolean =>
  message.toLowerCase().includes(wanted) ||
  Object.values(fields).some((value) => typeof value === "string" && value.toLowerCase().includes(wanted));
