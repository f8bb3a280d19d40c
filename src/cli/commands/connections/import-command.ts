import { closeSync, openSync } from "node:fs";
import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { Command } from "commander";
import { ConnectionService } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { describeFailure, failureText, isRefusal } from "../../terminal/failure.ts";
import { formatCount } from "../../terminal/format.ts";
import { unreadable } from "../../terminal/input.ts";
import { type NdjsonLine, readNdjson } from "../../terminal/ndjson.ts";
import { count } from "../../terminal/option-values.ts";
import { progressOn } from "../../terminal/progress.ts";
import { type Terminal, write } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { findWrongDoor } from "../../terminal/wrong-address.ts";
import { createImportReport, type ImportReport, ignoredLine, settledOf, summaryLine } from "./import-report.ts";
import { BrokenStream, importLines } from "./import-stream.ts";

/** Large enough that neither side waits for the other; a few megabytes of typical lines. */
const maxInFlight = 2_000;
const readBytes = 256 * 1024;

interface ImportCommandOptions {
  readonly errors?: string;
  readonly fromLine?: number;
  readonly runHooks?: true;
  readonly quiet?: true;
}

/** Adds `connections import`: imports a file of any length in constant memory. */
export function addImport(connections: Command, act: Act): void {
  connections
    .command("import")
    .argument("<file>", "file with one JSON object per line, as in POST /connections; - reads stdin")
    .option("--errors <file>", "write each failure to this file, one JSON object per line")
    .option("--from-line <line>", "skip the lines before this one", count)
    .option("--run-hooks", "run the scripts for new connections, as for a single import")
    .option("--quiet", "show no progress")
    .summary("import connections from a file; safe to run again")
    .addHelpText("after", helpText)
    .action(act(importFile));
}

const helpText = `
Each line is a JSON object. One line, shown here on several:
  {"provider_config_key":"calendar","connection_id":"ada","environment":"prod",
   "credentials":{"type":"OAUTH2","access_token":"…","refresh_token":"…",
   "expires_at":"2030-01-01T00:00:00Z"},"metadata":{},"tags":{}}

An existing connection gets the new credentials; fields that the line leaves out
stay the same. A line without connection_id creates a new connection on each
import. expires_at is ISO 8601 with a time zone, or a number: seconds since 1970
below 100,000,000,000, milliseconds from there on.

Exit code: 0 if all lines were imported, 3 if some failed, 1 if the stream broke.`;

async function importFile(session: CommandSession, file: string, given: ImportCommandOptions): Promise<number> {
  const { terminal, client, output, environment } = session;
  const { errors, fromLine = 1, runHooks = false, quiet = false } = given;
  const input = await openInput(file, terminal);
  const errorsFile = errors === undefined ? undefined : openErrors(errors);
  const began = performance.now();
  const elapsedMs = () => performance.now() - began;
  const progress = progressOn(terminal, { quiet });
  const report = createImportReport({ say: (line) => progress.say(line), errorsFile });
  try {
    await importLines({
      lines: skipTo(fromLine, readNdjson(input.source)),
      send: (requests) => client(ConnectionService).streamImportConnections(requests),
      maxInFlight,
      environment,
      runHooks,
      settle(outcome) {
        report.settle(outcome);
        const { bytes: done, failed } = report.counts;
        progress.update({ done, total: input.totalBytes, items: settledOf(report.counts), failed });
      },
    });
  } catch (error) {
    progress.end();
    return await tellBroken(session, report, error);
  } finally {
    input.source.destroy();
    if (errorsFile !== undefined) closeSync(errorsFile);
  }
  progress.end();
  if (report.ignored.size > 0) await output.note(ignoredLine(report.ignored));
  if (output.json) await output.document(summaryOf(report, elapsedMs()));
  else await output.line(summaryLine(report.counts, elapsedMs()));
  return report.counts.failed === 0 ? exitCodes.ok : exitCodes.partial;
}

interface Input {
  readonly source: Readable;
  /** Undefined if unknown. */
  readonly totalBytes: number | undefined;
}

async function openInput(file: string, { stdin }: Terminal): Promise<Input> {
  if (file === "-") return { source: stdin, totalBytes: undefined };
  try {
    const handle = await open(file);
    const stat = await handle.stat();
    return {
      source: handle.createReadStream({ highWaterMark: readBytes }),
      totalBytes: stat.isFile() ? stat.size : undefined,
    };
  } catch (error) {
    throw unreadable(file, error);
  }
}

/** Readable only by its owner, since it names the customer's users. */
function openErrors(file: string): number {
  try {
    return openSync(file, "w", 0o600);
  } catch (error) {
    throw new UsageMistake(`cannot write ${file}`, { cause: error });
  }
}

async function* skipTo(first: number, lines: AsyncIterable<NdjsonLine>): AsyncGenerator<NdjsonLine> {
  for await (const line of lines) if (line.line >= first) yield line;
}

const summaryOf = ({ counts, ignored }: ImportReport, elapsedMs: number) => ({
  connections: settledOf(counts),
  created: counts.created,
  replaced: counts.replaced,
  failed: counts.failed,
  last_line: counts.line,
  ignored_fields: Object.fromEntries(ignored),
  seconds: Math.round(elapsedMs) / 1_000,
});

/**
 * Reports what is certain, what is not, and how to continue: an import of a million connections must not end in
 * guessing.
 */
async function tellBroken(
  { terminal, address }: CommandSession,
  { counts }: ImportReport,
  thrown: unknown,
): Promise<number> {
  const { cause, unsettled } = thrown instanceof BrokenStream ? thrown : { cause: thrown, unsettled: undefined };
  if (settledOf(counts) === counts.failed && isRefusal(cause)) throw cause;
  const interrupted = terminal.signal.aborted;
  const wrongDoor = interrupted ? undefined : await findWrongDoor(cause, address);
  const failure = describeFailure(cause, { address, interrupted, wrongDoor });
  const { created, replaced, failed, line } = counts;
  const certain = `${formatCount(created + replaced, "connection")} imported, ${formatCount(failed, "line")} failed`;
  const doubtful = unsettled === undefined || unsettled.sent === 0 ? undefined : formatCount(unsettled.sent, "line");
  const nameless = unsettled?.nameless ?? 0;
  const notes = [
    line === 0 ? "no line is confirmed" : `lines up to ${line} are confirmed: ${certain}`,
    ...(doubtful === undefined ? [] : [`${doubtful} after that got no answer, and may or may not be imported`]),
    nameless === 0
      ? `running the file again is safe${line === 0 ? "" : `; --from-line ${line + 1} continues where this ended`}`
      : `lines without a connection_id: ${nameless}; if you import these again, they may create second connections`,
  ];
  const message = `the import broke off: ${failure.message}`;
  await write(terminal.stderr, failureText({ ...failure, message, notes: [...failure.notes, ...notes] }));
  return exitCodes.failed;
}
