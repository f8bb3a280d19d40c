import type { JsonObject } from "@bufbuild/protobuf";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import { searchTools } from "../../core/mcp-endpoint/tool-search.ts";
import { defaultFound, maxFound } from "./own-tools.ts";
import { type CalledTool, ToolArguments, type ToolResult } from "./tool-call.ts";
import type { ToolCatalog } from "./tool-catalog.ts";

/** Limits what a search brings into the context of a model; schemas may be large. */
const maxFoundBytes = 64 * 1024;

/** Returns the tools that fit a query, with what is needed to call them. */
export async function findTools({ searched }: ToolCatalog, call: CalledTool): Promise<ToolResult> {
  const given = new ToolArguments(call.given);
  const query = given.text("query") ?? "";
  const limit = given.integer("limit", { max: maxFound, fallback: defaultFound });
  given.end();
  await call.admit({});
  const found = searchTools(searched.map(searchedTool), query);
  const tools: JsonObject[] = [];
  let bytes = 0;
  for (const { shown } of found.slice(0, limit)) {
    const { name = "", description = "", inputSchema = {} } = shown;
    const one = { name, description, inputSchema };
    bytes += JSON.stringify(one).length;
    if (bytes > maxFoundBytes && tools.length > 0) break;
    tools.push(one);
  }
  return { value: { tools, found: found.length } };
}

function searchedTool({ name, target, shown }: EndpointTool) {
  const description = typeof shown["description"] === "string" ? shown["description"] : "";
  const integration = target.kind === "own" ? "" : target.integration;
  return { name, description: `${integration} ${description}`, shown };
}
