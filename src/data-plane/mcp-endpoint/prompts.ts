import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../../core/dialect/json-fields.ts";
import { readPrompt } from "../../core/mcp-endpoint/content.ts";
import type { EndpointTool, ScriptToolTarget } from "../../core/mcp-endpoint/tool.ts";
import { actionArguments } from "../../core/mcp-endpoint/tool-schemas.ts";
import { contentOf } from "./script-tools.ts";
import type { ToolResult } from "./tool-call.ts";

/** Returns the prompt of a script, as `prompts/list` shows it; none for any other script. */
export function promptOf(name: string, target: ScriptToolTarget, hasChoice: boolean): EndpointTool[] {
  if (target.kind !== "action" || target.script.mcp.kind !== "prompt") return [];
  const { integration, script } = target;
  const { properties, required } = actionArguments({ input: script.input, hasChoice });
  const needed = new Set(Array.isArray(required) ? required : []);
  const given = Object.entries(isObject(properties) ? properties : {}).map(([argument, schema]): JsonObject => {
    const description = isObject(schema) ? schema["description"] : undefined;
    return {
      name: argument,
      ...(typeof description === "string" && { description }),
      required: needed.has(argument),
    };
  });
  const shown = {
    name,
    title: `${script.name} (${integration})`,
    description: script.description === "" ? `The prompt ${script.name} of ${integration}.` : script.description,
    arguments: given,
  };
  return [{ name, target, shown }];
}

export const promptResult = ({ value }: ToolResult): JsonObject => contentOf(() => readPrompt(value));
