import type { Command } from "commander";
import { IntegrationSchema, IntegrationService } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Act } from "../session.ts";
import { objectCommand } from "./command-kinds.ts";

/** Adds `integrations discover`. */
export function addDiscovery(group: Command, act: Act, key: readonly [name: string, description: string]): void {
  const discover = group
    .command("discover")
    .summary("read the metadata of an MCP server again, and register a client where one is missing")
    .argument(...key);
  objectCommand(discover, act, IntegrationSchema, async ({ client, environment }, key: string) => {
    const { integration } = await client(IntegrationService).discoverIntegration({ environment, key });
    return integration;
  });
}
