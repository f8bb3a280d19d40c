import { ToolFailure } from "../../../core/scripts/script.ts";
import type { NamedTools } from "./tool.ts";
import { objectArgument } from "./tool-arguments.ts";

/** Asks the client that waits for the run. */
export const clientTools: NamedTools = {
  async askClient({ client }, [questions]) {
    if (client !== undefined) return client.ask(objectArgument(questions, "questions"));
    const message = "no MCP client waits for this run: check nango.getMcpClient() before you ask";
    throw new ToolFailure("no_mcp_client", message);
  },
  async getMcpClient({ client }) {
    return client === undefined ? null : { ...client.abilities };
  },
};
