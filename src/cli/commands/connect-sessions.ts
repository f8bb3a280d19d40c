import type { Command } from "commander";
import {
  type ConnectSession,
  ConnectSession_State,
  ConnectSessionSchema,
  ConnectSessionService,
  DeleteConnectSessionResponseSchema,
} from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Act } from "../session.ts";
import { listCommand } from "./command-kinds.ts";

interface LinkListOptions {
  readonly integration?: string;
}

/** Adds the `connect-sessions` commands. */
export function addConnectSessions(program: Command, act: Act): void {
  const group = program
    .command("connect-sessions")
    .summary("show and delete the links for end users that have not been used yet");
  const list = group
    .command("list")
    .summary("list the links that are open, newest first, without their tokens")
    .option("--integration <key>", "only links for this integration");
  listCommand(list, act, {
    schema: ConnectSessionSchema,
    none: "no open links",
    defaultLimit: 100,
    rpc: ({ client, environment }, page, { integration = "" }: LinkListOptions) =>
      client(ConnectSessionService).listConnectSessions({ environment, integration, ...page }),
    items: ({ sessions }) => sessions,
    columns: [
      { title: "ID", text: ({ id }) => id },
      { title: "END USER", text: endUserText },
      { title: "INTEGRATIONS", text: ({ allowedIntegrations }) => allowedIntegrations.join(",") || "all" },
      { title: "STATE", text: ({ state }) => (state === ConnectSession_State.OPENED ? "opened" : "created") },
      { title: "CREATED", time: ({ createdAt }) => createdAt },
    ],
  });
  group
    .command("delete")
    .argument("<id>", "id of the connect session")
    .summary("make a link useless")
    .action(
      act(async ({ client, output }, id: string) => {
        const answer = await client(ConnectSessionService).deleteConnectSession({ id });
        await output.done(DeleteConnectSessionResponseSchema, answer, "deleted the connect session");
      }),
    );
}

const endUserText = ({ endUser, tags, reconnect }: ConnectSession): string =>
  endUser?.email || endUser?.id || (tags["end_user_id"] ?? reconnect?.id ?? "");
