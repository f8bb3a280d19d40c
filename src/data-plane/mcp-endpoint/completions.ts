import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { mayDo } from "../../broker/setup/caller.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import { invalidParams } from "../../core/mcp-endpoint/protocol.ts";
import type { EndpointTool } from "../../core/mcp-endpoint/tool.ts";
import { connectionArgument } from "../../core/mcp-endpoint/tool-schemas.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { usableIds } from "./connection-choice.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { ToolCatalog } from "./tool-catalog.ts";

interface ArgumentCompletion {
  readonly params: JsonObject;
  readonly caller: EndpointCaller;
  readonly catalog: ToolCatalog;
}

/** The protocol allows no more. */
const maxValues = 100;

/**
 * Completes an argument of a prompt, or a variable of a resource: by the values that the schema of the script names, or
 * by the connections of the caller.
 */
export async function complete(
  services: Pick<Broker, "listing">,
  { params, caller, catalog }: ArgumentCompletion,
): Promise<JsonObject> {
  const { ref, argument } = params;
  if (!isObject(ref)) throw invalidParams("`ref` must be an object");
  if (!isObject(argument)) throw invalidParams("`argument` must be an object");
  const { name, value = "" } = argument;
  if (typeof name !== "string") throw invalidParams("`argument.name` must be text");
  if (typeof value !== "string") throw invalidParams("`argument.value` must be text");
  const { target } = referenced(ref, catalog);
  if (target.kind === "own") throw new Error("our own tools have no prompts");
  const { integration } = target;
  const declared = target.kind === "action" ? valuesOf(target.script.input, name) : [];
  const isConnection = declared.length === 0 && name === connectionArgument;
  const known =
    isConnection && mayDo(caller.caller, Scope.CONNECTIONS_READ)
      ? await usableIds(services, { caller, integration, size: maxValues + 1, prefix: value })
      : declared;
  const begun = value.toLowerCase();
  const fitting = known.filter((one) => one.toLowerCase().startsWith(begun));
  const completion: JsonObject = { values: fitting.slice(0, maxValues), hasMore: fitting.length > maxValues };
  return { completion: isConnection ? completion : { ...completion, total: fitting.length } };
}

function referenced({ type, name, uri }: JsonObject, { prompts, resources }: ToolCatalog): EndpointTool {
  if (type === "ref/prompt") {
    const found = typeof name === "string" ? prompts.get(name) : undefined;
    if (found === undefined) throw invalidParams("`ref.name` must be the name of a prompt");
    return found;
  }
  if (type !== "ref/resource") throw invalidParams("`ref.type` must be ref/prompt or ref/resource");
  const found = resources.find((one) => one.uri === uri);
  if (found === undefined) throw invalidParams("`ref.uri` must be the URI or the template of a resource");
  return found.tool;
}

/** Returns the values that a schema names for a field: all of them, or examples. */
function valuesOf(input: JsonObject | undefined, name: string): readonly string[] {
  const { properties } = input ?? {};
  const schema = isObject(properties) ? properties[name] : undefined;
  if (!isObject(schema)) return [];
  const { enum: all, const: only, examples } = schema;
  return [all, only === undefined ? undefined : [only], examples].flatMap(texts);
}

const texts = (value: JsonValue | undefined): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
