import type { Command } from "commander";
import {
  type EndUserDeletion,
  EndUserDeletion_State,
  EndUserDeletionSchema,
  EndUserService,
} from "../../gen/latchkey/v1/end_user_pb.ts";
import type { Act } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatCount } from "../terminal/format.ts";

interface EndUserOptions extends YesOption {
  readonly keepGrant?: boolean;
}

/** Adds the `end-users` commands. */
export function addEndUsers(program: Command, act: Act): void {
  const group = program.command("end-users").summary("end everything of an end user");
  withYes(group.command("delete"))
    .argument("<end-user>", "ID of the end user in your application")
    .option("--keep-grant", "do not revoke the grants at the providers")
    .option("--no-keep-grant", "revoke the grants, even where the integration keeps them")
    .summary("delete all connections of an end user, revoke their grants, and end connect sessions")
    .action(
      act(async (session, endUserId: string, { keepGrant, yes }: EndUserOptions) => {
        const { client, output, terminal, environment } = session;
        await requireYes(terminal, `Delete everything of the end user ${endUserId}?`, yes);
        const request = { environment, endUserId, ...(keepGrant === undefined ? {} : { keepGrant }) };
        const { deletion } = await client(EndUserService).deleteEndUser(request);
        if (deletion === undefined) return exitCodes.failed;
        await output.done(EndUserDeletionSchema, deletion, deletionText(deletion));
        return exitCodes.ok;
      }),
    );
  group
    .command("report")
    .argument("<end-user>", "ID of the end user in your application")
    .summary("show the report of an end user's deletion, with the revocations")
    .action(
      act(async ({ client, output, environment }, endUserId: string) => {
        const { deletion } = await client(EndUserService).getEndUserDeletion({ environment, endUserId });
        if (deletion !== undefined) await output.one(EndUserDeletionSchema, deletion);
      }),
    );
}

function deletionText({ state, connections, connectSessions, revocations }: EndUserDeletion): string {
  const counts = `${formatCount(connections, "connection")}, ${formatCount(connectSessions, "connect session")}`;
  const grants = formatCount(revocations.length, "revocation");
  return state === EndUserDeletion_State.DONE
    ? `deleted ${counts}; ${grants}`
    : `deleted ${counts} so far, and continues; ${grants}`;
}
