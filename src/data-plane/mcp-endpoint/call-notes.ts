import type { World } from "../../base/world.ts";
import type { Broker } from "../../broker/broker.ts";
import type { ClientProfile } from "../../core/mcp-endpoint/client-profile.ts";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { WantedAccount } from "./tool-call.ts";

/** How a call of a tool ended. */
export type CallOutcome = "done" | "refused" | "failed" | "account_needed";

/** Notes calls of tools in metrics, the log and the audit trail. Never notes arguments or results. */
export interface ToolNotes {
  /** Called before a tool acts on a connection. */
  begin(call: NotedCall): Promise<void>;
  end(call: NotedCall, ended: EndedCall): void;
}

export interface NotedCall {
  readonly tool: EndpointTool;
  readonly caller: EndpointCaller;
  readonly client: ClientProfile;
}

export interface EndedCall {
  readonly outcome: CallOutcome;
  /** Code of the fault; empty: none. */
  readonly code: string;
  readonly connection: WantedAccount | undefined;
  readonly ms: number;
}

/** Tools that only read what Latchkey holds. Their calls are in the log, but not in the audit trail. */
const unaudited: ReadonlySet<string> = new Set(["search_tools", "list_connections"]);

export const createToolNotes = ({ audit }: Pick<Broker, "audit">, { metrics, log }: World): ToolNotes => ({
  async begin({ tool, caller: { caller, environment } }) {
    if (unaudited.has(tool.name)) return;
    const { accessSession } = caller;
    const integration = tool.target.kind === "own" ? [] : [tool.target.integration];
    await audit.note({
      actor: caller.keyId,
      action: "mcp.call",
      environment,
      targets: [tool.name, ...integration, ...(accessSession === undefined ? [] : [accessSession.id])],
    });
  },
  end({ tool, caller: { caller, environment }, client }, { outcome, code, connection, ms }) {
    metrics.mcpCalls.inc({ kind: kindOf(tool), outcome });
    metrics.mcpCallSeconds.observe({ kind: kindOf(tool) }, ms / 1_000);
    log.info("a tool was called", {
      tool: tool.name,
      outcome,
      ...(code !== "" && { code }),
      environment,
      caller: caller.keyId,
      ...(caller.accessSession && { access_session: caller.accessSession.id }),
      ...(client.name !== "" && { client: client.name }),
      ...(connection && { integration: connection.integration, connection: connection.id }),
      ms: Math.round(ms),
    });
  },
});

const kindOf = ({ target }: EndpointTool): string => (target.kind === "own" ? target.tool : target.kind);
