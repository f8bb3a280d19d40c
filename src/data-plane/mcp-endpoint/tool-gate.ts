import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Broker } from "../../broker/broker.ts";
import type { GatedMessage } from "../../broker/policies/message-gate.ts";
import { type Caller, requireToolWithin } from "../../broker/setup/caller.ts";
import type { AskingMessage } from "../../broker/traffic/send-to-provider.ts";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import { holdersText } from "../../core/policies/decisions.ts";
import type { PolicyMatch, Verdict } from "../../core/policies/policy-set.ts";
import type { OwnMessage } from "../../core/policies/tool-call-facts.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import { isPossible } from "../proxy/admission.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { createHeldToolCalls } from "./held-tool-calls.ts";
import type { Spend } from "./spend.ts";

/** Lets policies judge the messages of the endpoint, and people answer for calls that policies hold. */
export interface ToolGate {
  /** Returns whether policies may let a caller use a tool, with some arguments and some connection. */
  isPossible(use: ListedUse, integrations: readonly KnownIntegration[]): boolean;
  /** Throws if policies refuse a method that acts on nothing, such as a list. None can be held. */
  requireMethod(method: string, caller: EndpointCaller): void;
  /** Throws if policies refuse a call whichever connection it uses. Called before the user is asked for anything. */
  requirePossible(call: GatedCall): void;
  /**
   * Returns what policies say of a call that becomes a request to a provider, which adds it to what they say of the
   * request. Throws if the caller may not call the tool any more.
   */
  judge(call: GatedCall, now: JudgedNow): Verdict | undefined;
  /** Resolves once a call may act: policies allow it, its budget is spent, and a person has approved it if they must. */
  admit(call: GatedCall, connection: Connection | "none", spend?: Spend): Promise<void>;
}

/** A tool, a prompt or a resource that may be shown to a caller. */
export interface ListedUse {
  readonly method: ActingMethod;
  readonly tool: EndpointTool;
  readonly caller: EndpointCaller;
}

/** Methods that act. A prompt and a resource of a script are run as its tool would be. */
export type ActingMethod = "tools/call" | "prompts/get" | "resources/read";

export interface KnownIntegration {
  readonly key: string;
  readonly provider: string;
}

/** Caller and connection of a call when its request is sent. */
type JudgedNow = Parameters<AskingMessage["judge"]>[0];

/** A message that acts. */
export interface GatedCall {
  readonly message: Extract<OwnMessage, { readonly kind: "call" }>;
  readonly caller: EndpointCaller;
  /** Undefined: the tool is for no integration. */
  readonly integration: KnownIntegration | undefined;
  /** The call becomes a request to a provider, which is judged with its values. */
  readonly becomesRequest: boolean;
  /** ID of the approval that the client names; empty: none. */
  readonly approval: string;
}

interface ToolGateOptions {
  readonly broker: Pick<Broker, "messageGate" | "approvalRequests" | "access" | "connections">;
  readonly world: World;
}

export function createToolGate({ broker, world }: ToolGateOptions): ToolGate {
  const { messageGate, approvalRequests, access, connections } = broker;
  /** Returns the policies that hold a call; undefined: it may act. Throws if policies refuse it. */
  function holders(gated: GatedMessage): readonly PolicyMatch[] | undefined {
    const verdict = messageGate.judge(gated);
    if (verdict === undefined) return undefined;
    messageGate.enforce(gated, verdict);
    return verdict.outcome === "held" ? verdict.by : undefined;
  }

  const admitHeld = createHeldToolCalls({ approvalRequests, access, connections, holders, world });

  return {
    isPossible({ method, tool, caller }, integrations) {
      const message: OwnMessage = { kind: "any call", method, tool: tool.name };
      const { target } = tool;
      const fits = integrations.filter(({ key }) => target.kind === "own" || target.integration === key);
      const isWithout = target.kind === "own" && !requiresIntegration.has(target.tool);
      const wanted = isWithout ? [undefined, ...fits] : fits.length === 0 ? [undefined] : fits;
      const becomesRequest = target.kind === "own" && target.tool === "provider_request";
      const common = { message, caller: caller.caller, environment: caller.environment, becomesRequest };
      return wanted.some((integration) =>
        isPossible(messageGate.judge({ ...common, integration, connection: "unknown" })),
      );
    },
    requireMethod(method, { caller, environment }) {
      const message: OwnMessage = { kind: "other", method };
      const common = { caller, environment, integration: undefined, becomesRequest: false };
      const by = holders({ message, connection: "none", ...common });
      if (by !== undefined) throw cannotBeHeld(by);
    },
    requirePossible(call) {
      const gated = gatedCall(call, "unknown");
      const verdict = messageGate.judge(gated);
      if (verdict !== undefined && !isPossible(verdict)) messageGate.enforce(gated, verdict);
    },
    judge(call, { caller, connection }) {
      requireToolWithin(caller, call.message.tool);
      const gated = { ...gatedCall({ ...call, becomesRequest: false }, connection), caller };
      const verdict = messageGate.judge(gated);
      if (verdict?.outcome === "unknown") messageGate.enforce(gated, verdict);
      return verdict;
    },
    async admit(call, connection, spend = () => undefined) {
      const gated = gatedCall({ ...call, becomesRequest: false }, connection);
      const by = holders(gated);
      if (by === undefined) return spend();
      const { message } = call;
      const { method, tool, arguments: given } = message;
      if (method !== "tools/call") throw cannotBeHeld(by);
      if (tool === "call_tool") {
        throw new Fault("denied_by_policy", `${holdersText(by)} holds call_tool: call the tool by its own name`);
      }
      await admitHeld({ call, tool, given, connection, gated, by }, spend);
    },
  };
}

const cannotBeHeld = (by: readonly PolicyMatch[]): Fault => {
  const reason = `${holdersText(by)} must be answered by a person, which is only possible for tools/call`;
  return new Fault("denied_by_policy", reason);
};

const requiresIntegration: ReadonlySet<string> = new Set(["connect_account", "provider_request"]);

const gatedCall = (
  { message, caller: { caller, environment }, integration, becomesRequest }: GatedCall,
  connection: GatedMessage["connection"],
): GatedMessage & { readonly caller: Caller } => ({
  message,
  caller,
  environment,
  integration,
  connection,
  becomesRequest,
});
