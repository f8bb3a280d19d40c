import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import type { ClientProfile } from "../../core/mcp-endpoint/client-profile.ts";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import { messageFactsOf } from "../../core/policies/tool-call-facts.ts";
import { pageOf } from "../proxy/held/held-calls.ts";
import type { CallOutcome, ToolNotes } from "./call-notes.ts";
import type { ConnectLink, ConnectLinks } from "./connect-links.ts";
import { connectAccount, listConnections } from "./connection-tools.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { type InputDialog, type InputEnding, InputNeeded } from "./input/input-dialog.ts";
import { sendProviderRequest } from "./request-tool.ts";
import { callAction, listRecords } from "./script-tools.ts";
import { findTools } from "./search-tool.ts";
import {
  AccountNeeded,
  argumentMistake,
  type CalledTool,
  type CallWatch,
  ToolArguments,
  type ToolResult,
  type WantedAccount,
} from "./tool-call.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import type { ActingMethod, GatedCall, KnownIntegration, ToolGate } from "./tool-gate.ts";

/** How a call ends. */
export type ToolAnswer = SettledAnswer | InputEnding;

/** How a call ends that its script did not interrupt with a question. */
export type SettledAnswer =
  | { readonly kind: "result"; readonly result: ToolResult }
  | { readonly kind: "fault"; readonly fault: Fault }
  | { readonly kind: "approval"; readonly id: string; readonly page: string | undefined; readonly fault: Fault }
  | { readonly kind: "link"; readonly link: ConnectLink; readonly fault: Fault; readonly connection: WantedAccount };

export interface ToolRequest {
  readonly method: ActingMethod;
  readonly tool: EndpointTool;
  readonly given: JsonObject;
  readonly caller: EndpointCaller;
  readonly client: ClientProfile;
  readonly catalog: ToolCatalog;
  /** ID of the approval that the client names; empty: none. */
  readonly approval: string;
  readonly dialog: InputDialog;
  readonly watch: CallWatch;
}

/** Runs a tool and notes the call. Rejects only if the call could not be noted. */
export type RunTool = (request: ToolRequest) => Promise<ToolAnswer>;

export interface RunnerServices {
  readonly broker: Broker;
  readonly sendToProvider: SendToProvider;
  readonly links: ConnectLinks;
  readonly notes: ToolNotes;
  readonly gate: ToolGate;
  /** Returns the origin of the dashboard, where people answer; undefined: there is none. */
  readonly dashboard: () => string | undefined;
}

export function createToolRunner(services: RunnerServices): RunTool {
  const { links, notes, gate, dashboard } = services;

  async function run(request: ToolRequest, noteConnection: CalledTool["noteConnection"]): Promise<ToolAnswer> {
    const { caller } = request;
    try {
      return { kind: "result", result: await act(services, request, noteConnection) };
    } catch (error) {
      if (error instanceof InputNeeded) return error.ending;
      if (!(error instanceof AccountNeeded)) return faultAnswer(faultOfStore(error), caller, dashboard());
      const { fault, connection } = error;
      const link = await links.linkFor(error, caller);
      return link === undefined ? { kind: "fault", fault } : { kind: "link", link, fault, connection };
    }
  }

  return async (asked) => {
    const request = isCallTool(asked.tool) ? await innerOf(asked, gate) : asked;
    if (request instanceof Fault) return { kind: "fault", fault: request };
    const since = performance.now();
    let connection: WantedAccount | undefined;
    await notes.begin(request);
    const answer = await run(request, (named) => {
      connection = named;
    });
    const code = codeOf(answer);
    notes.end(request, { outcome: outcomeOf(answer), code, connection, ms: performance.now() - since });
    return answer;
  };
}

/** Returns the call that `call_tool` asks for: it is judged and noted as if the client had sent it. */
async function innerOf(request: ToolRequest, gate: ToolGate): Promise<ToolRequest | Fault> {
  try {
    await gate.admit(gatedCall(request, undefined), "none");
    const given = new ToolArguments(request.given);
    const name = given.requiredText("name");
    const inner = given.object("arguments");
    given.end();
    const tool = request.catalog.all.get(name);
    if (tool === undefined || isCallTool(tool))
      return argumentMistake("name", "must be the name of a tool that search_tools has found");
    return { ...request, tool, given: inner };
  } catch (error) {
    return faultOfStore(error);
  }
}

const isCallTool = ({ target }: EndpointTool): boolean => target.kind === "own" && target.tool === "call_tool";

/** A call that waits for an approval says which: the client can show it, and call again. */
function faultAnswer(fault: Fault, { environment }: EndpointCaller, origin: string | undefined): ToolAnswer {
  const id = fault.metadata["approval"] ?? "";
  if (fault.code !== "approval_required" || id === "") return { kind: "fault", fault };
  return { kind: "approval", id, page: pageOf(origin, { environment, id }), fault };
}

const gatedCall = (
  { method, tool, given, caller, catalog, approval }: ToolRequest,
  integration: string | undefined,
): GatedCall => ({
  message: { kind: "call", method, tool: tool.name, arguments: given },
  caller,
  integration:
    integration === undefined ? undefined : (catalog.integrations.get(integration) ?? unknownKey(integration)),
  becomesRequest: tool.target.kind === "own" && tool.target.tool === "provider_request",
  approval,
});

/** An integration that does not exist, or is beyond the limits of the caller: the tool says so. */
const unknownKey = (key: string): KnownIntegration => ({ key, provider: "" });

/** Returns the integration that a call is about, before its arguments are checked. */
function integrationOf({ tool: { target }, given }: ToolRequest): string | undefined {
  if (target.kind !== "own") return target.integration;
  const { integration } = given;
  return typeof integration === "string" && integration !== "" ? integration : undefined;
}

async function act(
  { broker, sendToProvider, gate }: RunnerServices,
  request: ToolRequest,
  noteConnection: CalledTool["noteConnection"],
): Promise<ToolResult> {
  const { tool, given, caller, catalog, approval, dialog, watch } = request;
  const { target } = tool;
  gate.requirePossible(gatedCall(request, integrationOf(request)));
  const call: CalledTool = {
    caller,
    name: tool.name,
    given,
    noteConnection,
    approval,
    dialog,
    watch,
    async admit({ integration, ref, spend }) {
      // A connection that was just deleted is missing; one that comes later was not judged.
      const connection = ref === undefined ? "none" : (await broker.connections.get(ref)).value;
      await gate.admit(gatedCall(request, integration), connection, spend);
    },
    asking(integration) {
      const asked = gatedCall(request, integration);
      return { facts: messageFactsOf(asked.message), judge: (now) => gate.judge(asked, now) };
    },
  };
  if (target.kind === "action") return callAction(broker, target, call);
  if (target.kind === "records") return listRecords(broker, target, call);
  switch (target.tool) {
    case "search_tools":
      return findTools(catalog, call);
    case "list_connections":
      return listConnections(broker, call);
    case "connect_account":
      return connectAccount(broker, call);
    case "provider_request":
      return sendProviderRequest({ ...broker, sendToProvider }, call);
    case "call_tool":
      throw new Error("the inner call is run in its place");
  }
}

function codeOf(answer: ToolAnswer): string {
  switch (answer.kind) {
    case "result":
    case "questions":
      return "";
    case "refusal":
      return "input_refused";
    case "fault":
    case "approval":
    case "link":
      return answer.fault.code;
  }
}

const refusals: ReadonlySet<string> = new Set(["missing_scope", "not_in_session", "denied_by_policy"]);

function outcomeOf(answer: ToolAnswer): CallOutcome {
  if (answer.kind === "link") return "account_needed";
  if (answer.kind === "approval") return "held";
  if (answer.kind === "questions") return "input_needed";
  if (answer.kind === "refusal") return "failed";
  if (answer.kind === "fault") return refusals.has(answer.fault.code) ? "refused" : "failed";
  return answer.result.isError === true ? "failed" : "done";
}
