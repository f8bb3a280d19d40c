import type { FaultCode } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Audit } from "../../broker/audit/audit.ts";
import type { TrafficCounts } from "../../broker/traffic/traffic-counts.ts";
import { type MessageHeaders, messageHeaders } from "../../core/mcp/message-headers.ts";
import type { NotableCall, NotedMessage } from "../proxy/proxy-call.ts";
import { methodLabel } from "./method-label.ts";
import { createRefusedTools } from "./refused-tools.ts";
import { isUnderMcp } from "./target.ts";

/** Notes messages to the MCP servers of integrations, once they are over. Never notes arguments or results. */
export interface RelayedMessages {
  /** `status` is 0 if the caller left first. `endMs` is of the monotonic clock. */
  note(call: NotableCall, ended: { readonly status: number; readonly endMs: number }): void;
}

interface RelayedMessagesOptions {
  /** Undefined where there is no store. */
  readonly audit: Pick<Audit, "note"> | undefined;
  readonly counts: Pick<TrafficCounts, "find">;
  readonly world: World;
}

/** How a message ended, as far as HTTP says. A JSON-RPC error of a server is an answer like any other. */
type MessageEnd = "done" | "refused" | "held" | "failed" | "left";

/** Errors of a message that its caller may not send. */
const refusals: ReadonlySet<FaultCode> = new Set([
  ...(["missing_scope", "not_in_session", "denied_by_policy", "approval_denied"] as const),
  ...(["header_mismatch", "invalid_message"] as const),
]);

export function createRelayedMessages({ audit, counts, world }: RelayedMessagesOptions): RelayedMessages {
  const { metrics, log } = world;
  const refusedTools = createRefusedTools(audit, world);

  function noteTool(tool: string, call: NotableCall, { outcome, ms }: EndedToolCall): void {
    const { relayed, named, fault } = call;
    const found =
      relayed === undefined ? named : { caller: relayed.ready.caller, ref: relayed.ready.live.connection.ref };
    if (found?.ref === undefined) return;
    const { caller, ref } = found;
    const { environment, integration, id: connection } = ref;
    const isRefused = outcome === "refused";
    caller.accessSession?.use?.noteTool({ integration, tool }, isRefused);
    log.info("a tool was called", {
      tool: tool.slice(0, maxNameLength),
      outcome,
      ...(fault && { code: fault.code }),
      environment,
      caller: caller.keyId,
      ...(caller.accessSession && { access_session: caller.accessSession.id }),
      integration: integration.slice(0, maxNameLength),
      connection: connection.slice(0, maxNameLength),
      ...(ms !== undefined && { ms: Math.round(ms) }),
    });
    if (isRefused && fault !== undefined)
      refusedTools.note({ tool, caller, environment, integration, code: fault.code });
  }

  return {
    note(call, { status, endMs }) {
      const { relayed, named, fault } = call;
      const isMcp =
        relayed?.ready.live.provider.mcp !== undefined || (relayed === undefined && isUnderMcp(call.context.request));
      const ref = relayed?.ready.live.connection.ref ?? named?.ref;
      if (!isMcp || ref === undefined) return;
      const message = relayed?.message ?? call.message ?? claimedMessage(call);
      const since = relayed?.ready.since ?? named?.since;
      const ms = call.isEndless || since === undefined ? undefined : endMs - since;
      const outcome = outcomeOf(fault?.code, status);
      const method = methodLabel(call.context.request.method, message?.method);
      metrics.mcpMessages.inc({
        environment: ref.environment,
        integration: counts.find(ref.environment, ref.integration).label,
        method,
        outcome,
      });
      if (ms !== undefined) metrics.mcpMessageSeconds.observe({ method }, ms / 1_000);
      if (method === "tools/call" && message?.name !== undefined) noteTool(message.name, call, { outcome, ms });
    },
  };
}

interface EndedToolCall {
  readonly outcome: MessageEnd;
  readonly ms: number | undefined;
}

/** Names are the caller's. */
const maxNameLength = 255;

function outcomeOf(code: FaultCode | undefined, status: number): MessageEnd {
  if (code === "approval_required") return "held";
  if (code !== undefined) return refusals.has(code) ? "refused" : "failed";
  if (status === 0) return "left";
  return status >= 400 ? "failed" : "done";
}

/** Returns what the headers of an unread message claim: it was refused by them. */
function claimedMessage({ context }: NotableCall): NotedMessage | undefined {
  let headers: MessageHeaders;
  try {
    headers = messageHeaders(context.request.rawHeaders);
  } catch {
    // Headers that were refused claim nothing.
    return undefined;
  }
  return headers.method === undefined ? undefined : { method: headers.method, name: headers.name };
}
