import type { Command } from "commander";
import { ConnectionService } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act } from "../../session.ts";
import { readJsonArgument } from "../../terminal/input.ts";
import { readJsonObject } from "../../terminal/json-object.ts";
import { revision } from "../../terminal/option-values.ts";
import { type ConnectionName, connectionName, refOf } from "./names.ts";

const how = "JSON, @file or - for what is piped in";

/** Adds the `connections metadata` commands. Metadata belongs to the customer and has any form. */
export function addMetadata(connections: Command, act: Act): void {
  const group = connections.command("metadata").summary("manage the metadata of a connection");

  group
    .command("get")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .summary("print the metadata as JSON")
    .action(
      act(async (session, name: ConnectionName) => {
        const { connection } = await session.client(ConnectionService).getConnection({ ref: refOf(session, name) });
        await session.output.document(connection?.metadata ?? {});
      }),
    );

  for (const { verb, replace, summary } of [
    { verb: "merge", replace: false, summary: "set the given keys, keep the others" },
    { verb: "set", replace: true, summary: "replace all metadata" },
  ]) {
    group
      .command(verb)
      .argument("<integration/connection>", "for example calendar/ada", connectionName)
      .argument("<json>", how)
      .option("--expected-revision <revision>", "fail if the connection has changed since this revision", revision)
      .summary(summary)
      .action(
        act(async (session, name: ConnectionName, json: string, given: { readonly expectedRevision?: bigint }) => {
          const metadata = readJsonObject(await readJsonArgument(json, session.terminal), "metadata");
          const { connection } = await session.client(ConnectionService).updateMetadata({
            ref: refOf(session, name),
            metadata,
            replace,
            expectedRevision: given.expectedRevision ?? 0n,
          });
          await session.output.document(connection?.metadata ?? {});
        }),
      );
  }
}
