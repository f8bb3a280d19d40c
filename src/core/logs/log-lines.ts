import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type LogLine, LogLineSchema } from "../../gen/latchkey/v1/log_pb.ts";
import type { Redact } from "../secrets/redaction.ts";
import { keptFields, keptText, type LogFieldValues } from "./log-fields.ts";

/** A log line before redaction. */
export interface RawLine {
  readonly atMs: number;
  readonly level: "debug" | "info" | "warn" | "error";
  /** A constant sentence; the variable parts are in the fields. */
  readonly sentence: string;
  readonly fields: LogFieldValues;
}

/** A long log keeps both its beginning and its end. */
export const maxLinesPerEnd = 100;
const maxBytesPerEnd = 16 * 1024;
const maxLineBytes = 2 * 1024;

/** Collects lines, and holds no more than will be kept. */
export interface LineCollector {
  add(line: RawLine): void;
  readonly head: readonly RawLine[];
  readonly tail: readonly RawLine[];
  /** Number of lines added, with those that are gone. */
  readonly count: number;
  readonly isTruncated: boolean;
}

export function createLineCollector(): LineCollector {
  const head: RawLine[] = [];
  const tail: RawLine[] = [];
  let count = 0;
  let isTruncated = false;
  return {
    head,
    tail,
    get count() {
      return count;
    },
    get isTruncated() {
      return isTruncated;
    },
    add(line) {
      count += 1;
      if (head.length < maxLinesPerEnd) {
        head.push(line);
        return;
      }
      tail.push(line);
      if (tail.length <= maxLinesPerEnd) return;
      tail.shift();
      isTruncated = true;
    },
  };
}

/** Lines of a log that has not ended. */
export interface LiveLines {
  readonly lines: LogLine[];
  /** Number of lines before these that are gone. */
  readonly missed: number;
  /** Position after the last line. */
  readonly next: number;
}

/**
 * Returns lines from a position on, redacted: the rest of the beginning, or of the end. The redaction is only created if
 * there are new lines.
 */
export function linesFrom(
  { head, tail, count }: Pick<LineCollector, "head" | "tail" | "count">,
  position: number,
  redaction: () => Redact,
): LiveLines {
  if (position >= count) return { lines: [], missed: 0, next: position };
  const redact = redaction();
  const shown = (raw: readonly RawLine[]) => raw.map((line) => keptLine(line, redact).line);
  if (position < head.length) return { lines: shown(head.slice(position)), missed: 0, next: head.length };
  const tailAt = count - tail.length;
  const lines = shown(tail.slice(Math.max(0, position - tailAt)));
  return { lines, missed: Math.max(0, tailAt - position), next: count };
}

export interface KeptLines {
  readonly lines: LogLine[];
  readonly isTruncated: boolean;
}

/** Returns the lines as they are stored: redacted and bounded. */
export function keptLines(
  { head, tail, isTruncated }: Omit<LineCollector, "add" | "count">,
  redact: Redact,
): KeptLines {
  const beginning = fitting(head, redact);
  const end = fitting(tail.toReversed(), redact);
  const all = [...beginning, ...end.reverse()];
  return {
    lines: all.map(({ line }) => line),
    isTruncated: isTruncated || all.length < head.length + tail.length || all.some((one) => one.isCut),
  };
}

interface KeptLine {
  readonly line: LogLine;
  readonly bytes: number;
  /** Its fields were left out. */
  readonly isCut: boolean;
}

function keptLine({ atMs, level, sentence, fields }: RawLine, redact: Redact): KeptLine {
  const kept: JsonObject = keptFields(fields, redact);
  const message = keptText(sentence, redact);
  const bytes = Buffer.byteLength(JSON.stringify(kept)) + Buffer.byteLength(message);
  const isCut = bytes > maxLineBytes;
  const line = create(LogLineSchema, { at: timestampFromMs(atMs), level, message, fields: isCut ? {} : kept });
  return { line, bytes: isCut ? Buffer.byteLength(message) : bytes, isCut };
}

/** Returns the first lines that fit. Stops at the first line that does not, since redacting long lines takes time. */
function fitting(lines: readonly RawLine[], redact: Redact): KeptLine[] {
  let room = maxBytesPerEnd;
  const kept: KeptLine[] = [];
  for (const raw of lines) {
    const line = keptLine(raw, redact);
    room -= line.bytes;
    if (room < 0) break;
    kept.push(line);
  }
  return kept;
}
