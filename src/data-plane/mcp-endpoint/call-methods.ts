import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { requireToolWithin } from "../../broker/setup/caller.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { CallState } from "../../core/mcp-endpoint/input/call-state.ts";
import { invalidParams, RpcFailure, rpcCodes } from "../../core/mcp-endpoint/protocol.ts";
import { approvalIn } from "../../core/mcp-endpoint/request-state.ts";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import type { ConnectLinks } from "./connect-links.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { CallStates, StatefulCall } from "./input/call-states.ts";
import { createInputDialog } from "./input/input-dialog.ts";
import { promptResult } from "./prompts.ts";
import { resourceAt, resourceContents } from "./resources.ts";
import type { RpcRequest } from "./rpc-request.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import type { ActingMethod } from "./tool-gate.ts";
import {
  type AnswerForm,
  approvalRequest,
  connectRequest,
  declinedMessage,
  declinedResult,
  outputFor,
  resultFor,
} from "./tool-results.ts";
import type { RunTool, SettledAnswer } from "./tool-runner.ts";

/** Methods that run a script or a tool of our own. */
interface CallMethods {
  callTool(request: RpcRequest): Promise<JsonObject>;
  getPrompt(request: RpcRequest): Promise<JsonObject>;
  readResource(request: RpcRequest): Promise<JsonObject>;
}

interface CallMethodsOptions {
  readonly run: RunTool;
  readonly links: ConnectLinks;
  readonly states: CallStates;
  readonly catalogOf: (caller: EndpointCaller) => Promise<ToolCatalog>;
}

interface ActingCall {
  readonly method: ActingMethod;
  readonly tool: EndpointTool;
  readonly given: JsonObject;
  readonly catalog: ToolCatalog;
}

type CallEnding =
  | {
      readonly settled: SettledAnswer;
      readonly form: AnswerForm;
      readonly keep: (result: JsonObject) => JsonObject;
    }
  | { readonly question: JsonObject }
  | { readonly declined: Declined };

type Declined = Parameters<typeof declinedResult>;

export function createCallMethods({ run, links, states, catalogOf }: CallMethodsOptions): CallMethods {
  /** Runs what a request has found, once its user has followed the link of the answer before. */
  async function answer(
    { params, client, caller, watch, askClient }: RpcRequest,
    { method, tool, given, catalog }: ActingCall,
  ): Promise<CallEnding> {
    const call = { method, tool: tool.name, given, caller };
    const state = await states.open(params, call);
    const { awaited } = state;
    const approval = approvalIn(awaited);
    const asked = approval === "" ? connectRequest : approvalRequest;
    const reply = actionOf(params["inputResponses"], asked);
    if (reply === "decline" || reply === "cancel") return { declined: [reply, asked] };
    if (reply === "accept" && approval === "") await links.waitFor(awaited, caller);
    const dialog = createInputDialog({ client, state, responses: params["inputResponses"] });
    const found = await run({ method, tool, given, caller, client, catalog, approval, dialog, watch });
    if (found.kind === "refusal") throw found.failure;
    if (found.kind !== "questions") {
      const { era, opensUrls } = client;
      const isAskedNow = era === "modern" || (askClient !== undefined && state.rounds > 0);
      return { settled: found, form: { era, opensUrls, isAskedNow }, keep: keeperOf(state, call) };
    }
    return {
      question: {
        resultType: "input_required",
        inputRequests: found.requests,
        requestState: states.seal(found.state, call),
      },
    };
  }

  /** Returns what keeps the answers so far when the call must wait for a link or an approval. */
  const keeperOf =
    (state: CallState, call: StatefulCall) =>
    (result: JsonObject): JsonObject => {
      const { requestState: awaited } = result;
      if (state.rounds === 0 || typeof awaited !== "string") return result;
      return { ...result, requestState: states.seal({ ...state, awaited }, call) };
    };

  return {
    async callTool(request) {
      const { params, caller } = request;
      const { name, arguments: given = {} } = params;
      if (typeof name !== "string") throw invalidParams("`name` must be the name of a tool");
      if (!isObject(given)) throw invalidParams("`arguments` must be an object");
      requireToolWithin(caller.caller, name);
      const catalog = await catalogOf(caller);
      const tool = catalog.all.get(name);
      if (tool === undefined) throw invalidParams(`unknown tool: ${name.slice(0, 100)}`);
      const found = await answer(request, { method: "tools/call", tool, given, catalog });
      if ("question" in found) return found.question;
      return "declined" in found ? declinedResult(...found.declined) : found.keep(resultFor(found.settled, found.form));
    },
    async getPrompt(request) {
      const { params, caller } = request;
      const { name, arguments: given = {} } = params;
      if (typeof name !== "string") throw invalidParams("`name` must be the name of a prompt");
      if (!isObject(given)) throw invalidParams("`arguments` must be an object");
      const catalog = await catalogOf(caller);
      const tool = catalog.prompts.get(name);
      if (tool === undefined) throw invalidParams(`unknown prompt: ${name.slice(0, 100)}`);
      requireArguments(tool, given);
      const found = await answer(request, { method: "prompts/get", tool, given, catalog });
      if ("declined" in found) throw declined(found.declined);
      if ("question" in found) return found.question;
      const output = outputFor(found.settled, found.form);
      return output.kind === "question" ? found.keep(output.question) : promptResult(output.result);
    },
    async readResource(request) {
      const { params, caller } = request;
      const { uri } = params;
      if (typeof uri !== "string") throw invalidParams("`uri` must be the URI of a resource");
      const catalog = await catalogOf(caller);
      const wanted = resourceAt(catalog.resources, uri);
      if (wanted === undefined) throw notFound(request, uri);
      const { tool, given } = wanted;
      const found = await answer(request, { method: "resources/read", tool, given, catalog });
      if ("declined" in found) throw declined(found.declined);
      if ("question" in found) return found.question;
      const output = outputFor(found.settled, found.form);
      if (output.kind === "question") return found.keep(output.question);
      return { contents: resourceContents(tool, uri, output.result) };
    },
  };
}

const declined = (given: Declined): RpcFailure => new RpcFailure(rpcCodes.invalidParams, declinedMessage(...given));

function notFound({ client: { era } }: RpcRequest, uri: string): RpcFailure {
  const code = era === "modern" ? rpcCodes.invalidParams : rpcCodes.resourceNotFound;
  return new RpcFailure(code, "resource not found", { data: { uri: uri.slice(0, 500) } });
}

/** Throws if an argument that a prompt needs is missing. */
function requireArguments({ shown }: EndpointTool, given: JsonObject): void {
  const { arguments: listed } = shown;
  for (const one of Array.isArray(listed) ? listed : []) {
    if (!isObject(one) || one["required"] !== true || typeof one["name"] !== "string") continue;
    if (given[one["name"]] === undefined) throw invalidParams(`the argument \`${one["name"]}\` is required`);
  }
}

/** Returns what the user has said about a URL; undefined: the client has not asked. */
function actionOf(responses: JsonValue | undefined, name: string): JsonValue | undefined {
  const response = isObject(responses) ? responses[name] : undefined;
  return isObject(response) ? response["action"] : undefined;
}
