import type { JsonObject } from "@bufbuild/protobuf";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import type { Broker } from "../../broker/broker.ts";
import type { SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import { negotiatedVersion, newSessionId, serverInfoKey } from "../../core/mcp-endpoint/client-profile.ts";
import { pageOf } from "../../core/mcp-endpoint/page.ts";
import { RpcFailure, rpcCodes, supportedVersions } from "../../core/mcp-endpoint/protocol.ts";
import { createCallMethods } from "./call-methods.ts";
import { createToolNotes } from "./call-notes.ts";
import { complete } from "./completions.ts";
import { createConnectLinks } from "./connect-links.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { createCallStates } from "./input/call-states.ts";
import { inRounds } from "./input/rounds.ts";
import type { RpcRequest, RpcResult } from "./rpc-request.ts";
import type { ClientLogLevels } from "./streams/client-log-levels.ts";
import { createFindFollowed } from "./streams/followed-records.ts";
import { createSessionStreams, type SessionStreams } from "./streams/session-streams.ts";
import { createSubscriptions } from "./streams/subscriptions.ts";
import { type ListingRules, type ToolCatalog, toolCatalogOf } from "./tool-catalog.ts";
import { type ActingMethod, createToolGate } from "./tool-gate.ts";
import { createToolRunner } from "./tool-runner.ts";

export interface EndpointServices {
  readonly broker: Broker;
  readonly sendToProvider: SendToProvider;
  readonly rules: () => ListingRules;
  /** Returns the origin of the dashboard, where people answer; undefined: there is none. */
  readonly dashboard: () => string | undefined;
  readonly world: World;
}

export interface Methods {
  /** Answers a request by its method. Rejects with `RpcFailure`. */
  answer(request: RpcRequest): Promise<RpcResult>;
  /** Returns what writes the stream of a session of a client before 2026-07-28. Throws if too many are open. */
  readonly openStream: SessionStreams["open"];
}

const serverInfo = { name: "latchkey", title: "Latchkey", version };
const capabilities = { tools: {}, resources: { subscribe: true }, prompts: {}, completions: {}, logging: {} };
const instructions =
  "Tools act on accounts that users have connected. If an account is missing or no longer works, a call answers with a link: give it to the user, and call again once the account is connected.";

/** How long clients may keep lists: tools change with scripts and integrations, of which nothing tells clients. */
const listTtlMs = 60_000;
const cached = { ttlMs: listTtlMs, cacheScope: "private" };
/** What a resource holds is read again each time. */
const uncached = { ttlMs: 0, cacheScope: "private" };

export function createMethods(services: EndpointServices, levels: ClientLogLevels): Methods {
  const { broker, sendToProvider, dashboard, world } = services;
  const links = createConnectLinks(broker);
  const gate = createToolGate({ broker, world });
  const notes = createToolNotes(broker, world);
  const run = createToolRunner({ broker, sendToProvider, links, notes, gate, dashboard });
  const catalogOf = (caller: EndpointCaller) => toolCatalogOf(caller, { broker, gate, rules: services.rules() });
  const calls = createCallMethods({ run, links, states: createCallStates(broker, world.now), catalogOf });

  const findFollowed = createFindFollowed({ broker, gate });
  const sessions = createSessionStreams({ broker, findFollowed, catalogOf, world });

  async function list({ method, params, caller }: RpcRequest): Promise<JsonObject> {
    const catalog = await catalogOf(caller);
    const [name, all] = listOf(method, catalog);
    const { items, nextCursor } = pageOf(all, params["cursor"]);
    return { [name]: [...items], ...(nextCursor !== undefined && { nextCursor }) };
  }

  /** Answers the methods of both eras; undefined for any other. */
  async function common(request: RpcRequest): Promise<JsonObject | undefined> {
    const { method, params, caller } = request;
    switch (method) {
      case "tools/list":
      case "prompts/list":
      case "resources/list":
      case "resources/templates/list":
        return list(request);
      case "tools/call":
        return calls.callTool(request);
      case "prompts/get":
        return calls.getPrompt(request);
      case "resources/read":
        return calls.readResource(request);
      case "completion/complete":
        return complete(broker, { params, caller, catalog: await catalogOf(caller) });
      default:
        return undefined;
    }
  }

  async function legacyResult(request: RpcRequest): Promise<RpcResult> {
    const { method, params } = request;
    if (method === "initialize") {
      const protocolVersion = negotiatedVersion(params["protocolVersion"]);
      const headers = { "mcp-session-id": newSessionId(params) };
      return { result: { protocolVersion, capabilities, serverInfo, instructions }, headers };
    }
    if (method === "ping") return { result: {} };
    if (method === "logging/setLevel") {
      levels.set(request);
      return { result: {} };
    }
    if (method === "resources/subscribe" || method === "resources/unsubscribe") {
      await (method === "resources/subscribe" ? sessions.subscribe(request) : sessions.unsubscribe(request));
      return { result: {} };
    }
    const result = await inRounds(request, common);
    if (result === undefined) throw new RpcFailure(rpcCodes.methodNotFound, "method not found");
    return { result };
  }

  const listen = createSubscriptions({ broker, findFollowed, catalogOf, serverInfo, world });

  async function modernResult(request: RpcRequest): Promise<JsonObject> {
    const { method } = request;
    if (method === "server/discover") {
      return { supportedVersions: [...supportedVersions], capabilities, instructions, ...cached };
    }
    const result = await common(request);
    if (result === undefined) throw new RpcFailure(rpcCodes.methodNotFound, "method not found", { status: 404 });
    const hints = method.endsWith("/list") ? cached : method === "resources/read" ? uncached : {};
    return { ...result, ...(result["resultType"] === undefined && hints) };
  }

  async function answer(request: RpcRequest): Promise<RpcResult> {
    if (!acting.has(request.method)) gate.requireMethod(request.method, request.caller);
    if (request.client.era === "legacy") return legacyResult(request);
    if (request.method === "subscriptions/listen") return listen(request);
    const result = await modernResult(request);
    const meta = isObject(result["_meta"]) ? result["_meta"] : {};
    return { result: { resultType: "complete", ...result, _meta: { ...meta, [serverInfoKey]: serverInfo } } };
  }

  return { answer, openStream: sessions.open };
}

/** Policies judge these with what they act on. */
const acting: ReadonlySet<string> = new Set<ActingMethod>(["tools/call", "prompts/get", "resources/read"]);

/** Returns what a list shows, with the name of its field. */
function listOf(method: string, catalog: ToolCatalog): readonly [field: string, items: readonly JsonObject[]] {
  if (method === "tools/list") return ["tools", catalog.listed.map(({ shown }) => shown)];
  if (method === "prompts/list") return ["prompts", [...catalog.prompts.values()].map(({ shown }) => shown)];
  const wantsTemplates = method === "resources/templates/list";
  const found = catalog.resources.filter(({ isTemplate }) => isTemplate === wantsTemplates);
  return [wantsTemplates ? "resourceTemplates" : "resources", found.map(({ tool }) => tool.shown)];
}
