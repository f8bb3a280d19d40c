import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ScriptLine } from "../scripts/script.ts";
import { invalidParams } from "./protocol.ts";

/** Levels of log messages, as MCP has them from RFC 5424: the least important one first. */
const levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;

export type ClientLogLevel = (typeof levels)[number];

/** Reads the least important level that a client wants. Throws `RpcFailure` for any other value. */
export function readLogLevel(given: JsonValue | undefined, field: string, status = 200): ClientLogLevel {
  const level = levels.find((one) => one === given);
  if (level === undefined) throw invalidParams(`\`${field}\` must be one of ${levels.join(", ")}`, status);
  return level;
}

const levelOfLine = { debug: "debug", info: "info", warn: "warning", error: "error" } as const;

/** Returns a line of a script as a message for its client; undefined: the client wants only more important ones. */
export function logMessage(
  { level: ofLine, message }: ScriptLine,
  { least, logger }: { readonly least: ClientLogLevel; readonly logger: string },
): JsonObject | undefined {
  const level = levelOfLine[ofLine];
  if (levels.indexOf(level) < levels.indexOf(least)) return undefined;
  return { jsonrpc: "2.0", method: "notifications/message", params: { level, logger, data: message } };
}
