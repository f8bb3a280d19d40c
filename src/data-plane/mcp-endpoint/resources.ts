import type { JsonObject } from "@bufbuild/protobuf";
import { readResource } from "../../core/mcp-endpoint/content.ts";
import type { EndpointTool, ScriptToolTarget } from "../../core/mcp-endpoint/tool.ts";
import { matchTemplate, ownScheme, variablesOf } from "../../core/mcp-endpoint/uri-template.ts";
import { contentOf } from "./script-tools.ts";
import type { ToolResult } from "./tool-call.ts";

/** A resource, or a template of resources. */
export interface EndpointResource {
  readonly tool: EndpointTool;
  readonly isTemplate: boolean;
  /** The URI, or its template. */
  readonly uri: string;
}

const recordsRoot = `${ownScheme}//records/`;
/** Variables of the template of records: a connection, and a further page of it. */
const recordsRest = "/{connection}{?cursor}";

/** Returns the resources of a script, as the lists show them. */
export function resourcesOf(name: string, target: ScriptToolTarget): EndpointResource[] {
  const { integration, script } = target;
  if (target.kind === "records") {
    const { model } = target;
    const uri = `${recordsRoot}${encodeURIComponent(integration)}/${encodeURIComponent(model)}`;
    const about = `Saved records of the kind ${model} (${integration}).`;
    const shown = { title: `${model} of ${integration}`, description: about, mimeType: json };
    return [
      resource({ name, target, shown: { name, ...shown, uri } }, uri),
      template(
        { name, target, shown: { name, ...shown, uriTemplate: `${uri}${recordsRest}` } },
        `${uri}${recordsRest}`,
      ),
    ];
  }
  const { mcp } = target.script;
  if (mcp.kind !== "resource") return [];
  const { uri, mimeType } = mcp;
  const isTemplate = variablesOf(uri).length > 0;
  const shown: JsonObject = {
    name,
    title: `${script.name} (${integration})`,
    ...(script.description !== "" && { description: script.description }),
    ...(mimeType !== "" && { mimeType }),
    ...(isTemplate ? { uriTemplate: uri } : { uri }),
  };
  return [(isTemplate ? template : resource)({ name, target, shown }, uri)];
}

const json = "application/json";
const resource = (tool: EndpointTool, uri: string): EndpointResource => ({ tool, uri, isTemplate: false });
const template = (tool: EndpointTool, uri: string): EndpointResource => ({ tool, uri, isTemplate: true });

interface WantedResource {
  readonly tool: EndpointTool;
  /** Arguments as of the script's tool. */
  readonly given: JsonObject;
}

/** Returns the resource with a URI. Of several that fit, one without variables wins, then the first by name. */
export function resourceAt(resources: readonly EndpointResource[], uri: string): WantedResource | undefined {
  const exact = resources.find((one) => !one.isTemplate && one.uri === uri);
  if (exact !== undefined) return { tool: exact.tool, given: {} };
  for (const { tool, isTemplate, uri: pattern } of resources) {
    if (!isTemplate) continue;
    const given = pattern.startsWith(recordsRoot) ? recordsAt(pattern, uri) : matchTemplate(pattern, uri);
    if (given !== undefined) return { tool, given: { ...given } };
  }
  return undefined;
}

function recordsAt(pattern: string, uri: string): JsonObject | undefined {
  const [path = "", query] = uri.split("?", 2);
  const found = matchTemplate(pattern.replace("{?cursor}", ""), path);
  if (found === undefined || query === undefined) return found;
  return { ...found, ...Object.fromEntries(new URLSearchParams(query)) };
}

/** Returns what a resource holds. */
export function resourceContents({ target }: EndpointTool, uri: string, { value }: ToolResult): JsonObject[] {
  if (target.kind !== "action") return [{ uri, mimeType: json, text: JSON.stringify(value) }];
  const { mcp } = target.script;
  const mimeType = mcp.kind === "resource" ? mcp.mimeType : "";
  return contentOf(() => readResource(value, { uri, mimeType }));
}
