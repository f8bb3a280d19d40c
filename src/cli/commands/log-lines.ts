import type { JsonValue } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { LogLine } from "../../gen/latchkey/v1/log_pb.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import type { Paint, Tone } from "../terminal/paint.ts";

const tones: Readonly<Record<string, Tone>> = { debug: "dim", info: "plain", warn: "warning", error: "bad" };

/** The sentence of a log line that holds a script's output. */
const scriptSays = "the script says";

/** Formats a log line: time, level, message, and the fields below. */
export function formatLogLine(line: LogLine, paint: Paint): string[] {
  const { at, level, message, fields = {} } = line;
  const time = at === undefined ? "" : timestampDate(at).toISOString().slice(11, 23);
  const { detail, ...others } = fields;
  // Output of a script is shown as the line itself.
  if (message === scriptSays && typeof others["message"] === "string")
    return formatLogLine({ ...line, message: others["message"], fields: {} }, paint);
  const beside = Object.entries(others).map(([name, value]) => `${name}=${plain(value)}`);
  const first = `${paint("dim", time)}  ${paint(tones[level] ?? "plain", escapeControl(level.padEnd(5)))}  ${escapeControl(message)}`;
  const indent = " ".repeat(21);
  return [
    first,
    ...(beside.length === 0 ? [] : [`${indent}${paint("dim", escapeControl(beside.join("  ")))}`]),
    // Long text gets lines of its own.
    ...(typeof detail === "string" ? wrapped(escapeControl(detail)).map((part) => `${indent}${part}`) : []),
  ];
}

const plain = (value: JsonValue): string =>
  typeof value === "string" && /^\S+$/.test(value) ? value : JSON.stringify(value);

const width = 78;

function wrapped(text: string): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
