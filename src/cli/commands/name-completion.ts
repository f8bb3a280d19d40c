import { Argument, type Command } from "commander";
import { ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import { type NameKind, nameKinds, namesCommand } from "../completion/command-tree.ts";
import type { Act, CommandSession } from "../session.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import { nameOf } from "./connections/names.ts";

const pageSize = 1_000;

/** Adds a hidden command that prints names for the completion of a shell. It never fails: a shell shows nothing then. */
export function addNameCompletion(program: Command, act: Act): void {
  program
    .command(namesCommand, { hidden: true })
    .addArgument(new Argument("<kind>").choices(nameKinds))
    .action(
      act(async (session, kind: NameKind) => {
        try {
          const names = await namesOf(kind, session);
          if (names.length > 0) await session.output.line(names.map(escapeControl).join("\n"));
        } catch {
          /* No server, or no key: there are no names. */
        }
      }),
    );
}

async function namesOf(kind: NameKind, { client, environment }: CommandSession): Promise<readonly string[]> {
  switch (kind) {
    case "environments":
      return (await client(EnvironmentService).listEnvironments({ pageSize })).environments.map(({ name }) => name);
    case "integrations":
      return (await client(IntegrationService).listIntegrations({ environment, pageSize })).integrations.map(
        ({ key }) => key,
      );
    case "providers":
      return (await client(ProviderService).listProviders({ pageSize })).providers.map(({ name }) => name);
    case "connections":
      return (await client(ConnectionService).listConnections({ environment, pageSize })).connections.map(({ ref }) =>
        nameOf(ref),
      );
  }
}
