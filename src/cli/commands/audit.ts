import type { Command } from "commander";
import { AuditEventSchema, LogService } from "../../gen/latchkey/v1/log_pb.ts";
import type { Act } from "../session.ts";
import { listCommand } from "./command-kinds.ts";

interface AuditListOptions {
  readonly actor?: string;
  readonly action?: string;
  readonly target?: string;
}

/** Adds the `audit` commands. */
export function addAudit(program: Command, act: Act): void {
  const group = program.command("audit").summary("show the audit trail");
  const list = group
    .command("list", { isDefault: true })
    .summary("list audit events, newest first")
    .option("--actor <key>", "only events of this key")
    .option("--action <action>", "only this action or group of actions: connection.import, connection")
    .option("--target <target>", "only events on this target, for example calendar/ada");
  listCommand(list, act, {
    schema: AuditEventSchema,
    none: "no events",
    defaultLimit: 100,
    rpc: ({ client, environment }, page, { actor = "", action = "", target = "" }: AuditListOptions) =>
      client(LogService).listAuditEvents({ environment, actor, action, target, ...page }),
    items: ({ events }) => events,
    columns: [
      { title: "WHEN", time: ({ at }) => at },
      { title: "WHO", text: ({ actor }) => actor },
      { title: "WHAT", text: ({ action }) => action },
      { title: "ENVIRONMENT", text: ({ environment }) => environment },
      { title: "TARGETS", text: ({ targets }) => summary(targets) },
      { title: "FIELDS", text: ({ fields }) => fields.join(",") },
    ],
  });
}

/** A bulk import has many targets: a table shows the first, `--json` all. */
function summary(targets: readonly string[]): string {
  const shown = targets.slice(0, 3).join(",");
  return targets.length > 3 ? `${shown} and ${targets.length - 3} more` : shown;
}
