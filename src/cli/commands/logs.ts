import { setTimeout as sleep } from "node:timers/promises";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import { type Log, LogSchema, LogService } from "../../gen/latchkey/v1/log_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import type { Output } from "../terminal/output.ts";
import type { Paint, Tone } from "../terminal/paint.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { type ListExtent, printList, withExtent } from "./command-kinds.ts";
import { type ConnectionName, connectionName } from "./connections/names.ts";
import { formatLogLine } from "./log-lines.ts";

const defaultLimit = 50;
const followEveryMs = 1_000;

interface LogListOptions extends ListExtent {
  readonly integration?: string;
  readonly connection?: ConnectionName;
  readonly operation?: string;
  readonly failed?: boolean;
  readonly follow?: boolean;
}

/** Adds `logs`, which lists logs, newest first; `logs <id>` shows one in full. */
export function addLogs(program: Command, act: Act): void {
  const logs = withExtent(program.command("logs"), defaultLimit);
  logs
    .command("get")
    .summary("show a log in full")
    .argument("<log-id>", "the log_id of a connection's error, or an id from the list")
    .action(act((session, id: string) => readLog(session, id)));
  logs
    .summary("show logs of authorizations, refreshes and other operations")
    .argument("[log-id]", "show this log in full: the log_id of a connection's error")
    .option("--integration <key>", "only logs of this integration")
    .option("--connection <integration/connection>", "only logs of this connection", connectionName)
    .option("--operation <operation>", "only logs of this operation, for example auth.refresh")
    .option("--failed", "only logs of failed operations")
    .option("-f, --follow", "print new logs until interrupted")
    .action(
      act(async (session, id: string | undefined, given: LogListOptions) => {
        if (id !== undefined) {
          if (Object.keys(given).length > 0) throw new UsageMistake("a log id cannot be combined with options");
          return readLog(session, id);
        }
        const { integration, connection, follow, limit, all } = given;
        if (connection !== undefined && integration !== undefined && integration !== connection.integration)
          throw new UsageMistake("--integration and --connection name different integrations");
        if (follow !== true) return listLogs(session, given);
        if (limit !== undefined || all === true)
          throw new UsageMistake("--follow cannot be combined with --limit or --all");
        return followLogs(session, given);
      }),
    );
}

async function readLog({ client, output, environment }: CommandSession, id: string): Promise<void> {
  const { log } = await client(LogService).getLog({ environment, id });
  if (log === undefined) return;
  if (output.json) return output.one(LogSchema, log);
  await output.line(story(log, output.paint));
}

const requestOf = (
  { environment }: CommandSession,
  { integration, connection, operation = "", failed = false }: LogListOptions,
) => ({
  environment,
  integration: connection?.integration ?? integration ?? "",
  connectionId: connection?.id ?? "",
  operation,
  failed,
});

const listLogs = (session: CommandSession, given: LogListOptions): Promise<void> =>
  printList(
    session,
    {
      schema: LogSchema,
      none: "no logs",
      defaultLimit,
      fetch: async (page) => {
        const response = await session.client(LogService).listLogs({ ...requestOf(session, given), ...page });
        return { items: response.logs, nextPageToken: response.nextPageToken };
      },
      columns: [
        { title: "LOG", text: ({ id }) => id },
        { title: "WHEN", time: ({ createdAt }) => createdAt },
        { title: "OPERATION", text: ({ operation }) => operation },
        { title: "OUTCOME", text: outcomeOf, tone: outcomeTone },
        { title: "CONNECTION", text: subjectOf },
        { title: "WHAT HAPPENED", text: gistOf },
      ],
    },
    given,
  );

/** Polls: logs are rare, and a page of new ones costs the sidecar nothing. */
async function followLogs(session: CommandSession, given: LogListOptions): Promise<void> {
  const { client, output, terminal } = session;
  const newest = async () => (await client(LogService).listLogs({ ...requestOf(session, given), pageSize: 100 })).logs;
  let seen = new Set((await newest()).map(({ id }) => id));
  await output.note("Following new logs; press Ctrl-C to stop.");
  try {
    for (;;) {
      await sleep(followEveryMs, undefined, { signal: terminal.signal });
      const logs = await newest();
      for (const log of logs.filter(({ id }) => !seen.has(id)).reverse()) await show(output, log);
      seen = new Set(logs.map(({ id }) => id));
    }
  } catch (error) {
    // An interrupt is the normal end.
    if (!terminal.signal.aborted) throw error;
  }
}

const show = (output: Output, log: Log) =>
  output.json ? output.one(LogSchema, log) : output.line(`${story(log, output.paint)}\n`);

const outcomeOf = ({ failed }: Log): string => (failed ? "failed" : "done");
const outcomeTone = ({ failed }: Log): Tone => (failed ? "bad" : "good");

const subjectOf = ({ integration, connectionId }: Log): string =>
  connectionId === "" ? integration : `${integration}/${connectionId}`;

/** Returns the most severe line, or else the last one. Among equally severe ones, the last knew most. */
function gistOf({ lines }: Log): string {
  const worst = lines.findLast(({ level }) => level === "error") ?? lines.findLast(({ level }) => level === "warn");
  const line = worst ?? lines.at(-1);
  if (line === undefined) return "";
  const code = line.fields?.reason ?? line.fields?.code;
  return typeof code === "string" ? `${line.message} (${code})` : line.message;
}

/** Formats a log: its subject, then what happened, line by line. */
function story(log: Log, paint: Paint): string {
  const subject = subjectOf(log);
  const about = `${log.operation}${subject === "" ? "" : ` of ${subject}`} in ${log.environment}`;
  const began = log.createdAt === undefined ? "" : timestampDate(log.createdAt).toISOString().slice(0, 10);
  return [
    `${paint("bold", escapeControl(about))}  ${paint(outcomeTone(log), outcomeOf(log))}`,
    paint("dim", `log ${escapeControl(log.id)}, ${began}`),
    ...(log.truncated ? [paint("dim", "some lines were left out: the log is too large")] : []),
    ...log.lines.flatMap((line) => formatLogLine(line, paint)),
  ].join("\n");
}
