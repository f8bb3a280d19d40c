import type { Command } from "commander";
import {
  type ConnectionChoice,
  ConnectionSchema,
  ConnectionService,
  ListConnectionChoicesResponseSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { paired } from "../../terminal/option-values.ts";
import { type ConnectionName, connectionName, refOf } from "./names.ts";

/** Adds `connections choose`. */
export function addChoose(connections: Command, act: Act): void {
  connections
    .command("choose")
    .argument("<integration/connection>", "for example jira/ada", connectionName)
    .argument("[choice=option...]", "options to store, by id or label; without any, shows what there is", paired)
    .summary("show or choose what a connection uses, such as one of several sites")
    .action(
      act(async (session, name: ConnectionName, options: Readonly<Record<string, string>> | undefined) => {
        const { client, output } = session;
        const ref = refOf(session, name);
        if (options === undefined || Object.keys(options).length === 0) {
          const answer = await client(ConnectionService).listConnectionChoices({ ref });
          if (output.json) return output.one(ListConnectionChoicesResponseSchema, answer);
          return output.line(listed(answer.choices));
        }
        const { connection } = await client(ConnectionService).chooseConnectionValues({ ref, options: { ...options } });
        if (connection !== undefined) await output.one(ConnectionSchema, connection);
      }),
    );
}

function listed(choices: readonly ConnectionChoice[]): string {
  if (choices.length === 0) return "nothing to choose: the provider's description has no choices";
  const lines = choices.flatMap(({ name, title, options, problem }) => [
    `${name} (${title})${problem === "" ? "" : `: no list (${problem})`}`,
    ...options.map(({ id, label, chosen }) => `  ${chosen ? "*" : " "} ${id}  ${label}`),
  ]);
  return lines.map(escapeControl).join("\n");
}
