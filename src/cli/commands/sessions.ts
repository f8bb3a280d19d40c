import type { Command } from "commander";
import {
  BrowserSessionSchema,
  RevokeBrowserSessionResponseSchema,
  SignInService,
} from "../../gen/latchkey/v1/sign_in_pb.ts";
import type { Act } from "../session.ts";
import { listCommand } from "./command-kinds.ts";

/** Adds the `sessions` commands, for browsers that are signed in to the dashboard. */
export function addSessions(program: Command, act: Act): void {
  const group = program.command("sessions").summary("manage who is signed in to the dashboard");
  const list = group.command("list").summary("list browser sessions: your own; with an admin key, all");
  listCommand(list, act, {
    schema: BrowserSessionSchema,
    none: "no browser sessions",
    rpc: ({ client }, page) => client(SignInService).listBrowserSessions(page),
    items: ({ sessions }) => sessions,
    columns: [
      { title: "ID", text: ({ id }) => id },
      { title: "WHO", text: ({ keyId, person }) => person || keyId },
      { title: "ENVIRONMENTS", text: ({ environments }) => environments.join(",") || "all" },
      { title: "SIGNED IN", time: ({ createdAt }) => createdAt },
      { title: "LAST USED", time: ({ lastUsedAt }) => lastUsedAt },
      { title: "ADDRESS", text: ({ address }) => address },
    ],
  });
  group
    .command("revoke")
    .summary("sign a browser out of the dashboard at once")
    .argument("<id>", "ID of the session")
    .action(
      act(async ({ client, output }, id: string) => {
        const answer = await client(SignInService).revokeBrowserSession({ id });
        await output.done(RevokeBrowserSessionResponseSchema, answer, `signed out the browser session ${id}`);
      }),
    );
}
