import { timestampDate } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import { type Log, LogSchema, LogService } from "../../gen/latchkey/v1/log_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import { past } from "../terminal/option-values.ts";
import type { Output } from "../terminal/output.ts";
import type { Paint, Tone } from "../terminal/paint.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { type ListExtent, printList, withExtent } from "./command-kinds.ts";
import { type ConnectionName, connectionName } from "./connections/names.ts";
import { showLive } from "./following.ts";
import { formatLogLine } from "./log-lines.ts";
import { bound } from "./webhooks/names.ts";

const defaultLimit = 50;
const levels = ["debug", "info", "warn", "error"];

interface LogListOptions extends ListExtent {
  readonly integration?: string;
  readonly connection?: ConnectionName;
  readonly operation?: string;
  readonly failed?: boolean;
  readonly text?: string;
  readonly level?: string;
  readonly since?: number;
  readonly until?: number;
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
    .option("--operation <operation>", "only logs of this operation or group: auth.refresh, auth")
    .option("--failed", "only logs of failed operations")
    .option("--text <text>", "only logs with this text in a line, in any case")
    .addOption(
      new Option("--level <level>", "only logs with a line of this level, or a more severe one").choices(levels),
    )
    .option("--since <time>", "only logs since this time: 2h (ago), or 2030-01-01T00:00:00Z", past)
    .option("--until <time>", "only logs before this time", past)
    .option("-f, --follow", "print new logs until interrupted")
    .action(
      act(async (session, id: string | undefined, given: LogListOptions) => {
        if (id !== undefined) {
          if (Object.keys(given).length > 0) throw new UsageMistake("a log id cannot be combined with options");
          return readLog(session, id);
        }
        const { integration, connection, follow, limit, all, since, until } = given;
        if (connection !== undefined && integration !== undefined && integration !== connection.integration)
          throw new UsageMistake("--integration and --connection name different integrations");
        if (follow !== true) return listLogs(session, given);
        if (limit !== undefined || all === true)
          throw new UsageMistake("--follow cannot be combined with --limit or --all");
        if (since !== undefined || until !== undefined)
          throw new UsageMistake("--follow cannot be combined with --since or --until");
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
  { integration, connection, operation = "", failed = false, text = "", level = "" }: LogListOptions,
) => ({
  environment,
  integration: connection?.integration ?? integration ?? "",
  connectionId: connection?.id ?? "",
  operation,
  failed,
  text,
  level,
});

const listLogs = (session: CommandSession, given: LogListOptions): Promise<void> =>
  printList(
    session,
    {
      schema: LogSchema,
      none: "no logs",
      defaultLimit,
      fetch: async (page) => {
        const times = { since: bound(given.since), until: bound(given.until) };
        const request = { ...requestOf(session, given), ...times, ...page };
        const response = await session.client(LogService).listLogs(request);
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

const followLogs = (session: CommandSession, given: LogListOptions): Promise<void> =>
  showLive(session, {
    steps: session.client(LogService).watchLogs(requestOf(session, given)),
    what: "logs",
    show: (event) => (event.case === "log" ? show(session.output, event.value) : undefined),
  });

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
