import type { JsonObject } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { type Caller, mayDo, mayReadRecords } from "../../broker/setup/caller.ts";
import { type EndpointTool, ownTools, type ScriptToolTarget } from "../../core/mcp-endpoint/tool.ts";
import { toolsByName } from "../../core/mcp-endpoint/tool-names.ts";
import { actionArguments, outputSchemaOf, recordArguments } from "../../core/mcp-endpoint/tool-schemas.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { allIntegrations } from "../api/all-integrations.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { ownToolShown } from "./own-tools.ts";
import { promptOf } from "./prompts.ts";
import { type EndpointResource, resourcesOf } from "./resources.ts";
import type { ActingMethod, KnownIntegration, ToolGate } from "./tool-gate.ts";

/** The tools, prompts and resources of one caller. */
export interface ToolCatalog {
  /** Tools that `tools/list` shows, in a fixed order. */
  readonly listed: readonly EndpointTool[];
  /** Tools of scripts that a search may find. */
  readonly searched: readonly EndpointTool[];
  /** Every tool within the limits of the caller, also those that are not listed, or that policies refuse. */
  readonly all: ReadonlyMap<string, EndpointTool>;
  /** Prompts and resources that policies may allow. */
  readonly prompts: ReadonlyMap<string, EndpointTool>;
  readonly resources: readonly EndpointResource[];
  /** The integrations within its limits. */
  readonly integrations: ReadonlyMap<string, KnownIntegration>;
}

/** Which tools are listed. */
export interface ListingRules {
  /** Up to this number of tools, all are listed; else those that are pinned, and the search. */
  readonly listed: number;
  /** Names of tools, or their beginning with `*`. */
  readonly pinned: readonly string[];
}

interface CatalogServices {
  readonly broker: Pick<Broker, "scripts" | "integrations">;
  readonly gate: ToolGate;
  readonly rules: ListingRules;
}

/** Returns the tools that a caller may use. The same callers get the same bytes until scripts or integrations change. */
export async function toolCatalogOf(caller: EndpointCaller, services: CatalogServices): Promise<ToolCatalog> {
  const { broker, gate, rules } = services;
  const found = await allIntegrations(broker.integrations, caller.environment);
  const integrations = new Map(found.filter(({ key }) => isWithin(caller, key)).map((one) => [one.key, one]));
  const keys = [...integrations.keys()];
  const isPossible = (method: ActingMethod, tool: EndpointTool) =>
    gate.isPossible({ method, tool, caller }, [...integrations.values()]);
  const targets = scriptTargets(broker.scripts.all(), new Set(keys));
  const usable = [...toolsByName(targets)].filter(
    ([name, target]) => mayUse(caller, target) && caller.admitsTool(name),
  );
  const scripted = usable.flatMap(([name, target]): EndpointTool[] =>
    isOfKind(target, "tool") ? [{ name, target, shown: shownTarget(name, target, caller) }] : [],
  );
  const prompts = usable.flatMap(([name, target]) =>
    promptOf(name, target, !hasOneConnection(caller.caller, target.integration)),
  );
  const resources = usable.flatMap(([name, target]) => resourcesOf(name, target));
  const searched = scripted.filter((tool) => isPossible("tools/call", tool));
  const listsAll = searched.length <= rules.listed;
  const own = ownTools.flatMap((tool): EndpointTool[] => {
    if (!mayCall(caller.caller, ownScopes[tool]) || !caller.admitsTool(tool)) return [];
    return [{ name: tool, target: { kind: "own", tool }, shown: ownToolShown(tool, keys) }];
  });
  const pinned = listsAll ? searched : searched.filter(({ name }) => isNamed(rules.pinned, name));
  const ownListed = own.filter((tool) => !(listsAll && forMany.has(tool.name)) && isPossible("tools/call", tool));
  return {
    listed: [...ownListed, ...pinned],
    searched,
    prompts: new Map(
      prompts.filter((prompt) => isPossible("prompts/get", prompt)).map((prompt) => [prompt.name, prompt]),
    ),
    resources: resources.filter(({ tool }) => isPossible("resources/read", tool)),
    integrations,
    all: new Map([...own, ...scripted].map((tool) => [tool.name, tool])),
  };
}

/** Tools that only a list which is too long needs. */
const forMany: ReadonlySet<string> = new Set(["search_tools", "call_tool"]);

const ownScopes = {
  search_tools: Scope.UNSPECIFIED,
  call_tool: Scope.UNSPECIFIED,
  list_connections: Scope.CONNECTIONS_READ,
  connect_account: Scope.CONNECTIONS_WRITE,
  provider_request: Scope.PROXY,
} as const;

const mayCall = (caller: Caller, scope: Scope): boolean => scope === Scope.UNSPECIFIED || mayDo(caller, scope);

const isWithin = ({ caller }: EndpointCaller, integration: string): boolean =>
  caller.limits?.integrations === undefined || caller.limits.integrations.has(integration);

/** Scripts send requests that are not held to the methods, hosts and paths of limits. */
const mayUse = ({ caller }: EndpointCaller, { kind }: ScriptToolTarget): boolean =>
  kind === "records" ? mayReadRecords(caller) : mayDo(caller, Scope.SYNCS) && caller.limits?.limitsRequests !== true;

function scriptTargets(
  scripts: ReturnType<Broker["scripts"]["all"]>,
  integrations: ReadonlySet<string>,
): ScriptToolTarget[] {
  const models = new Set<string>();
  return [...scripts]
    .filter(({ integration }) => integrations.has(integration))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((script): ScriptToolTarget[] => {
      const { integration } = script;
      if (script.kind === "action") return [{ kind: "action", integration, script }];
      if (script.kind === "event") return [];
      return Object.keys(script.models).flatMap((model) => {
        // Two syncs may save records of one model, which are listed together.
        const at = `${integration}\0${model}`;
        if (models.has(at)) return [];
        models.add(at);
        return [{ kind: "records", integration, script, model }];
      });
    });
}

function shownTarget(name: string, target: ScriptToolTarget, { caller }: EndpointCaller): JsonObject {
  const { integration } = target;
  const hasChoice = !hasOneConnection(caller, integration);
  if (target.kind === "records") {
    const { script, model } = target;
    return {
      name,
      title: `${model} of ${integration}`,
      description: `Lists saved records of the kind ${model} (${integration}). ${script.description}`.trimEnd(),
      inputSchema: recordArguments(hasChoice),
      annotations: { readOnlyHint: true },
    };
  }
  const { script } = target;
  const outputSchema = outputSchemaOf(script.output);
  return {
    name,
    title: `${script.name} (${integration})`,
    description: script.description === "" ? `Runs the action ${script.name} of ${integration}.` : script.description,
    inputSchema: actionArguments({ input: script.input, hasChoice }),
    ...(outputSchema !== undefined && { outputSchema }),
  };
}

/** Records are a tool and a resource. */
const isOfKind = (target: ScriptToolTarget, kind: "tool" | "prompt" | "resource"): boolean =>
  target.kind === "action" ? target.script.mcp.kind === kind : kind !== "prompt";

/** Whether limits leave one connection of an integration. */
function hasOneConnection({ limits }: Pick<Caller, "limits">, integration: string): boolean {
  if (limits?.integrations === undefined) return false;
  const named = limits.given.connections.filter((one) => one.integration === integration);
  return named.length === 1 && named[0]?.id !== "";
}

const isNamed = (patterns: readonly string[], name: string): boolean =>
  patterns.some((one) => (one.endsWith("*") ? name.startsWith(one.slice(0, -1)) : one === name));
