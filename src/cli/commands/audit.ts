import type { Command } from "commander";
import { AuditEventSchema, LogService } from "../../gen/latchkey/v1/log_pb.ts";
import type { Act } from "../session.ts";
import { moment } from "../terminal/moment.ts";
import { count } from "../terminal/option-values.ts";
import { type Extent, pagesOf } from "../terminal/paging.ts";

const defaultLimit = 100;

interface AuditListOptions extends Extent {
  readonly actor?: string;
  readonly action?: string;
  readonly target?: string;
}

/** Adds the `audit` commands. */
export function addAudit(program: Command, act: Act): void {
  const group = program.command("audit").summary("who did what to what");

  group
    .command("list")
    .option("--actor <key>", "only what this key did")
    .option("--action <action>", "only this action, or all that begin with it and a dot: connection, connection.import")
    .option("--target <target>", "only what was done to this, such as calendar/ada")
    .option("--limit <count>", `at most this many (default: ${defaultLimit})`, count)
    .option("--all", "all of them")
    .summary("the trail, the newest first")
    .action(
      act(
        async (
          { client, output, environment },
          { actor = "", action = "", target = "", limit, all }: AuditListOptions,
        ) => {
          const most = limit ?? (all === true ? undefined : defaultLimit);
          let more = false;
          await output.many({
            schema: AuditEventSchema,
            none: "no events",
            pages: pagesOf({
              maxPageSize: 1_000,
              limit: most,
              onMore: () => (more = true),
              fetch: async (page) => {
                const request = { environment, actor, action, target, ...page };
                const { events, nextPageToken } = await client(LogService).listAuditEvents(request);
                return { items: events, nextPageToken };
              },
            }),
            columns: [
              { title: "WHEN", text: ({ at }) => moment(at) },
              { title: "WHO", text: ({ actor: who }) => who },
              { title: "WHAT", text: (event) => event.action },
              { title: "ENVIRONMENT", text: ({ environment: where }) => where },
              { title: "TARGETS", text: ({ targets }) => summary(targets) },
              { title: "FIELDS", text: ({ fields }) => fields.join(",") },
            ],
          });
          if (more) await output.note(`There may be more than these ${most}: --all lists them, --limit so many.`);
        },
      ),
    );
}

/** A bulk import has many targets: a table shows the first, `--json` all. */
function summary(targets: readonly string[]): string {
  const shown = targets.slice(0, 3).join(",");
  return targets.length > 3 ? `${shown} and ${targets.length - 3} more` : shown;
}
