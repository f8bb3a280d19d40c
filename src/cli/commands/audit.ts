import type { Command } from "commander";
import { type AuditEvent, AuditEventSchema, LogService } from "../../gen/latchkey/v1/log_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { past } from "../terminal/option-values.ts";
import { type Column, createTable } from "../terminal/table.ts";
import { write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { type ListExtent, printList, withExtent } from "./command-kinds.ts";
import { showLive } from "./following.ts";
import { bound } from "./webhooks/names.ts";

const defaultLimit = 100;

interface AuditListOptions {
  readonly actor?: string;
  readonly action?: string;
  readonly target?: string;
  readonly text?: string;
  readonly since?: number;
  readonly until?: number;
  readonly follow?: boolean;
}

/** Adds the `audit` commands. */
export function addAudit(program: Command, act: Act): void {
  const group = program.command("audit").summary("show the audit trail");
  const list = group
    .command("list", { isDefault: true })
    .summary("list audit events, newest first")
    .option("--actor <key>", "only events of this key")
    .option("--action <action>", "only this action or group of actions: connection.import, connection")
    .option("--target <target>", "only events on this target, for example calendar/ada")
    .option("--text <text>", "only events with this text in actor, action, targets or fields, in any case")
    .option("--since <time>", "only events since this time: 2h (ago), or 2030-01-01T00:00:00Z", past)
    .option("--until <time>", "only events before this time", past)
    .option("-f, --follow", "print new events until interrupted");
  withExtent(list, defaultLimit);
  list.action(
    act((session, given: AuditListOptions & ListExtent) => {
      const { follow, since, until, limit, all } = given;
      if (follow !== true) return listEvents(session, given);
      if (limit !== undefined || all === true)
        throw new UsageMistake("--follow cannot be combined with --limit or --all");
      if (since !== undefined || until !== undefined)
        throw new UsageMistake("--follow cannot be combined with --since or --until");
      return followEvents(session, given);
    }),
  );
}

const requestOf = (
  { environment }: CommandSession,
  { actor = "", action = "", target = "", text = "" }: AuditListOptions,
) => ({ environment, actor, action, target, text });

const listEvents = (session: CommandSession, given: AuditListOptions & ListExtent): Promise<void> =>
  printList(
    session,
    {
      schema: AuditEventSchema,
      none: "no events",
      defaultLimit,
      fetch: async (page) => {
        const times = { since: bound(given.since), until: bound(given.until) };
        const request = { ...requestOf(session, given), ...times, ...page };
        const { events, nextPageToken } = await session.client(LogService).listAuditEvents(request);
        return { items: events, nextPageToken };
      },
      columns,
    },
    given,
  );

function followEvents(session: CommandSession, given: AuditListOptions): Promise<void> {
  const { output, terminal } = session;
  const table = createTable(columns, output.paint, output.layout);
  return showLive(session, {
    steps: session.client(LogService).watchAuditEvents(requestOf(session, given)),
    what: "events",
    show(event) {
      if (event.case !== "auditEvent") return undefined;
      return output.json
        ? output.one(AuditEventSchema, event.value)
        : write(terminal.stdout, table.draw([event.value]));
    },
  });
}

const columns: readonly Column<AuditEvent>[] = [
  { title: "WHEN", time: ({ at }) => at },
  { title: "WHO", text: ({ actor }) => actor },
  { title: "WHAT", text: ({ action }) => action },
  { title: "ENVIRONMENT", text: ({ environment }) => environment },
  { title: "TARGETS", text: ({ targets }) => summary(targets) },
  { title: "FIELDS", text: ({ fields }) => fields.join(",") },
];

/** A bulk import has many targets: a table shows the first, `--json` all. */
function summary(targets: readonly string[]): string {
  const shown = targets.slice(0, 3).join(",");
  return targets.length > 3 ? `${shown} and ${targets.length - 3} more` : shown;
}
