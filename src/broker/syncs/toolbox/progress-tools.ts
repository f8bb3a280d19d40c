import type { JsonValue } from "@bufbuild/protobuf";
import type { ScriptProgress } from "../../../core/scripts/script.ts";
import type { NamedTools } from "./tool.ts";
import { invalidArgument, objectArgument } from "./tool-arguments.ts";

const maxMessageLength = 500;

/** Tells a caller that waits how far the run is. */
export const progressTools: NamedTools = {
  async progress({ noteProgress }, [step]) {
    const found = progressArgument(step);
    noteProgress?.(found);
    return undefined;
  },
};

function progressArgument(given: JsonValue | undefined): ScriptProgress {
  const { progress, total, message } = objectArgument(given, "step");
  if (typeof progress !== "number") throw invalidArgument("`progress` must be a number");
  if (total !== undefined && typeof total !== "number") throw invalidArgument("`total` must be a number");
  if (message !== undefined && typeof message !== "string") throw invalidArgument("`message` must be text");
  return { progress, total, message: message?.slice(0, maxMessageLength) };
}
