import { appendFileSync } from "node:fs";
import { escapeControl } from "../../terminal/escape-control.ts";
import { formatCount, formatMs, formatNumber } from "../../terminal/format.ts";
import type { LineFailure, LineOutcome } from "./import-stream.ts";

/** Counts the results of a file's lines, and reports failures. */
export interface ImportReport {
  settle(outcome: LineOutcome): void;
  readonly counts: ImportCounts;
  /** Ignored fields, with the number of lines of each. */
  readonly ignored: ReadonlyMap<string, number>;
}

export interface ImportCounts {
  readonly created: number;
  readonly replaced: number;
  readonly failed: number;
  /** All lines up to this one have a result. */
  readonly line: number;
  readonly bytes: number;
}

interface ReportOptions {
  readonly say: (line: string) => void;
  /** An open file that receives one JSON object per failure. */
  readonly errorsFile: number | undefined;
}

/** As many failures as a person reads; the rest are only counted. */
const maxShownFailures = 20;
/** A generated file has few distinct fields; a file with more is not an import file. */
const maxIgnoredFields = 100;

export function createImportReport({ say, errorsFile }: ReportOptions): ImportReport {
  const counts = { created: 0, replaced: 0, failed: 0, line: 0, bytes: 0 };
  const ignored = new Map<string, number>();

  const fail = (line: number, failure: LineFailure) => {
    counts.failed += 1;
    if (errorsFile !== undefined) appendFileSync(errorsFile, `${JSON.stringify(failureRecord(line, failure))}\n`);
    if (counts.failed <= maxShownFailures)
      say(escapeControl(`line ${line}: ${failureText(failure)} (${failure.code})`));
    if (counts.failed === maxShownFailures + 1) {
      say(`further failures are counted${errorsFile === undefined ? "; --errors FILE writes all of them" : ""}`);
    }
  };

  return {
    counts,
    ignored,
    settle({ line, end, outcome, ignored: fields }) {
      counts.line = line;
      counts.bytes = end;
      for (const field of fields) {
        if (ignored.has(field) || ignored.size < maxIgnoredFields) ignored.set(field, (ignored.get(field) ?? 0) + 1);
      }
      if (typeof outcome === "string") counts[outcome] += 1;
      else fail(line, outcome);
    },
  };
}

/** The fields that are wrong, where the message does not name them. */
function failureText({ message, violations }: LineFailure): string {
  const unsaid = violations.filter((violation) => !message.includes(violation.message));
  if (unsaid.length === 0) return message;
  return `${message}: ${unsaid.map(({ path, message: wrong }) => `${path} ${wrong}`).join("; ")}`;
}

const failureRecord = (line: number, { code, message, violations }: LineFailure) => ({
  line,
  code,
  message,
  violations: violations.map(({ path, message: wrong }) => ({ path, message: wrong })),
});

export const settledOf = ({ created, replaced, failed }: ImportCounts): number => created + replaced + failed;

/** Returns a line such as `imported 999,990 of 1,000,000 connections (999,990 new, 10 failed) in 41 s`. */
export function summaryLine(counts: ImportCounts, elapsedMs: number): string {
  const { created, replaced, failed } = counts;
  const parts = [
    `${formatNumber(created)} new`,
    ...(replaced === 0 ? [] : [`${formatNumber(replaced)} replaced`]),
    ...(failed === 0 ? [] : [`${formatNumber(failed)} failed`]),
  ];
  const imported = failed === 0 ? "" : `${formatNumber(created + replaced)} of `;
  return `imported ${imported}${formatCount(settledOf(counts), "connection")} (${parts.join(", ")}) in ${formatMs(elapsedMs)}`;
}

export function ignoredLine(ignored: ReadonlyMap<string, number>): string {
  const fields = [...ignored].map(([field, lines]) => `${escapeControl(field)} (${formatCount(lines, "line")})`);
  const shown = fields.slice(0, 10).join(", ");
  return `ignored unknown fields: ${shown}${fields.length > 10 ? ` and ${fields.length - 10} more` : ""}`;
}
