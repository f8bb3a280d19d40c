import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireToolWithin } from "../../broker/setup/caller.ts";
import type { SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import {
  type ClientProfile,
  negotiatedVersion,
  newSessionId,
  serverInfoKey,
} from "../../core/mcp-endpoint/client-profile.ts";
import { invalidParams, RpcFailure, rpcCodes, supportedVersions } from "../../core/mcp-endpoint/protocol.ts";
import { approvalIn } from "../../core/mcp-endpoint/request-state.ts";
import { createToolNotes } from "./call-notes.ts";
import { createConnectLinks } from "./connect-links.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { type ListingRules, toolCatalogOf } from "./tool-catalog.ts";
import { createToolGate } from "./tool-gate.ts";
import { approvalRequest, connectRequest, declinedResult, resultFor } from "./tool-results.ts";
import { createToolRunner } from "./tool-runner.ts";

export interface EndpointServices {
  readonly broker: Broker;
  readonly sendToProvider: SendToProvider;
  readonly rules: () => ListingRules;
  /** Returns the origin of the dashboard, where people answer; undefined: there is none. */
  readonly dashboard: () => string | undefined;
  readonly world: World;
}

/** A request of the protocol, whose headers have been checked. */
export interface RpcRequest {
  readonly method: string;
  readonly params: JsonObject;
  readonly client: ClientProfile;
  readonly caller: EndpointCaller;
}

export interface RpcResult {
  readonly result: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Answers requests by their methods. Rejects with `RpcFailure`. */
export type Methods = (request: RpcRequest) => Promise<RpcResult>;

const serverInfo = { name: "latchkey", title: "Latchkey", version };
const capabilities = { tools: {} };
const instructions =
  "Tools act on accounts that users have connected. If an account is missing or no longer works, a call answers with a link: give it to the user, and call again once the account is connected.";

/** How long clients may keep lists: tools change with scripts and integrations, of which nothing tells clients. */
const listTtlMs = 60_000;
const cached = { ttlMs: listTtlMs, cacheScope: "private" };

export function createMethods(services: EndpointServices): Methods {
  const { broker, sendToProvider, dashboard, world } = services;
  const links = createConnectLinks(broker);
  const gate = createToolGate({ broker, world });
  const notes = createToolNotes(broker, world);
  const run = createToolRunner({ broker, sendToProvider, links, notes, gate, dashboard });
  const catalogOf = (caller: EndpointCaller) => toolCatalogOf(caller, { broker, gate, rules: services.rules() });

  async function listTools({ params, caller }: RpcRequest): Promise<JsonObject> {
    if (params["cursor"] !== undefined) throw invalidParams("`cursor` is unknown: the list has one page");
    const { listed } = await catalogOf(caller);
    return { tools: listed.map(({ shown }) => shown) };
  }

  async function callTool({ params, client, caller }: RpcRequest): Promise<JsonObject> {
    const { name, arguments: given = {} } = params;
    if (typeof name !== "string") throw invalidParams("`name` must be the name of a tool");
    if (!isObject(given)) throw invalidParams("`arguments` must be an object");
    requireToolWithin(caller.caller, name);
    const catalog = await catalogOf(caller);
    const tool = catalog.all.get(name);
    if (tool === undefined) throw invalidParams(`unknown tool: ${name.slice(0, 100)}`);
    const state = params["requestState"];
    const approval = approvalIn(state);
    const asked = approval === "" ? connectRequest : approvalRequest;
    const reply = actionOf(params["inputResponses"], asked);
    if (reply === "decline" || reply === "cancel") return declinedResult(reply, asked);
    if (reply === "accept" && typeof state === "string" && approval === "") await links.waitFor(state, caller);
    return resultFor(await run({ tool, given, caller, client, catalog, approval }), client);
  }

  return async (request) => {
    const { method, params, client, caller: asking } = request;
    if (method !== "tools/call") gate.requireMethod(method, asking);
    if (client.era === "modern") {
      const result = await modernResult(request);
      return { result: { resultType: "complete", ...result, _meta: { [serverInfoKey]: serverInfo } } };
    }
    switch (method) {
      case "initialize": {
        const protocolVersion = negotiatedVersion(params["protocolVersion"]);
        const headers = { "mcp-session-id": newSessionId(params) };
        return { result: { protocolVersion, capabilities, serverInfo, instructions }, headers };
      }
      case "ping":
        return { result: {} };
      case "tools/list":
        return { result: await listTools(request) };
      case "tools/call":
        return { result: await callTool(request) };
      default:
        throw new RpcFailure(rpcCodes.methodNotFound, "method not found");
    }
  };

  async function modernResult(request: RpcRequest): Promise<JsonObject> {
    switch (request.method) {
      case "server/discover":
        return { supportedVersions: [...supportedVersions], capabilities, instructions, ...cached };
      case "tools/list":
        return { ...(await listTools(request)), ...cached };
      case "tools/call":
        return callTool(request);
      default:
        throw new RpcFailure(rpcCodes.methodNotFound, "method not found", { status: 404 });
    }
  }
}

/** Returns what the user has said about a URL; undefined: the client has not asked. */
function actionOf(responses: JsonValue | undefined, name: string): JsonValue | undefined {
  const response = isObject(responses) ? responses[name] : undefined;
  return isObject(response) ? response["action"] : undefined;
}
