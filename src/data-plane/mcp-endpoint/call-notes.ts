import type { Span } from "../../base/tracing.ts";
import type { World } from "../../base/world.ts";
import type { Broker } from "../../broker/broker.ts";
import type { ClientProfile } from "../../core/mcp-endpoint/client-profile.ts";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import { createRefusedTools } from "../mcp/refused-tools.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { WantedAccount } from "./tool-call.ts";
import type { ActingMethod } from "./tool-gate.ts";

/** How a call of a tool ended. */
export type CallOutcome = "done" | "refused" | "failed" | "account_needed" | "input_needed" | "held";

/** Notes calls of tools in metrics, the log and the audit trail. Never notes arguments or results. */
export interface ToolNotes {
  /** Called before a tool acts on a connection. */
  begin(call: NotedCall): Promise<void>;
  end(call: NotedCall, ended: EndedCall): void;
}

export interface NotedCall {
  readonly method: ActingMethod;
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

export function createToolNotes({ audit }: Pick<Broker, "audit">, world: World): ToolNotes {
  const { metrics, log, tracing } = world;
  const refusedTools = createRefusedTools(audit, { log });
  const spans = new WeakMap<NotedCall, Span>();

  function beginSpan(call: NotedCall): void {
    if (tracing === undefined) return;
    const { method, tool, caller } = call;
    const span = tracing.span(method, { kind: "server", parent: caller.traceparent });
    span.set("mcp.method.name", method);
    span.set("gen_ai.tool.name", tool.name);
    span.set("latchkey.environment", caller.environment);
    const { accessSession } = caller.caller;
    if (accessSession !== undefined) span.set("latchkey.access_session", accessSession.id);
    spans.set(call, span);
  }

  function endSpan(call: NotedCall, { outcome, code, connection }: EndedCall): void {
    const span = spans.get(call);
    if (span === undefined) return;
    if (connection !== undefined) {
      span.set("latchkey.integration", connection.integration);
      span.set("latchkey.connection", connection.id);
    }
    if (outcome !== "done") span.fail(code === "" ? outcome : code);
    span.end();
  }

  return {
    async begin(call) {
      const { tool, caller: endpointCaller } = call;
      const { caller, environment } = endpointCaller;
      beginSpan(call);
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
    end(call, ended) {
      const { method, tool, caller: endpointCaller, client } = call;
      const { caller, environment } = endpointCaller;
      const { outcome, code, connection, ms } = ended;
      endSpan(call, ended);
      metrics.mcpCalls.inc({ kind: kindOf(tool), outcome });
      metrics.mcpCallSeconds.observe({ kind: kindOf(tool) }, ms / 1_000);
      metrics.mcpMessages.inc({ environment, integration: "(latchkey)", method, outcome });
      metrics.mcpMessageSeconds.observe({ method }, ms / 1_000);
      const isRefused = outcome === "refused";
      caller.accessSession?.use?.noteTool({ integration: "", tool: tool.name }, isRefused);
      const { target } = tool;
      if (isRefused) {
        const integration = target.kind === "own" ? (connection?.integration ?? "") : target.integration;
        refusedTools.note({ tool: tool.name, caller, environment, integration, code });
      }
      log.info("a tool was called", {
        tool: tool.name,
        ...(method !== "tools/call" && { method }),
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
  };
}

const kindOf = ({ target }: EndpointTool): string => (target.kind === "own" ? target.tool : target.kind);
