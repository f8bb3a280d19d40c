import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../dialect/json-fields.ts";

/** The argument of a script's tool that names the connection. */
export const connectionArgument = "connection";
/** The argument that holds the input of a script whose input is no object. */
const inputArgument = "input";

const connectionSchema: JsonObject = {
  type: "string",
  description: "ID of the connection to use. Needed only if there are several.",
};

interface InputSchemaOptions {
  /** JSON Schema of the script's input; undefined: it takes none. */
  readonly input: JsonObject | undefined;
  /** The caller may choose among connections. */
  readonly hasChoice: boolean;
}

/** How the arguments of a tool become the input of its script. */
export type InputForm = "none" | "arguments" | "wrapped";

/**
 * Returns how a script takes its input. Arguments are always an object, so any other input is wrapped in one; so is one
 * that has a field of its own with the name of our argument.
 */
export function inputFormOf(input: JsonObject | undefined): InputForm {
  if (input === undefined) return "none";
  const { type, properties } = input;
  const isTaken = isObject(properties) && connectionArgument in properties;
  return type === "object" && !isTaken ? "arguments" : "wrapped";
}

/** Returns the schema of the arguments of an action's tool. */
export function actionArguments({ input, hasChoice }: InputSchemaOptions): JsonObject {
  const choice: JsonObject = hasChoice ? { [connectionArgument]: connectionSchema } : {};
  const form = inputFormOf(input);
  if (input === undefined || form === "none") return closed({ properties: choice });
  const plain = withoutHeaderNotes(input);
  if (form === "arguments") {
    const { properties, ...rest } = plain;
    return { ...rest, properties: { ...(isObject(properties) ? properties : {}), ...choice } };
  }
  // Definitions are found from the root of a schema.
  const { $schema, $defs, definitions, ...inner } = plain;
  return {
    ...($schema !== undefined && { $schema }),
    ...closed({ properties: { [inputArgument]: inner, ...choice }, required: [inputArgument] }),
    ...($defs !== undefined && { $defs }),
    ...(definitions !== undefined && { definitions }),
  };
}

/** Returns the connection that arguments name, and the input for the script. */
export function readActionArguments(
  given: JsonObject,
  input: JsonObject | undefined,
): { readonly connection: JsonValue | undefined; readonly input: JsonValue | undefined } {
  const { [connectionArgument]: connection, ...rest } = given;
  const form = inputFormOf(input);
  if (form === "wrapped") return { connection, input: given[inputArgument] };
  // A script without an input schema gets what there is, as over HTTP.
  return { connection, input: form === "none" && Object.keys(rest).length === 0 ? undefined : rest };
}

export const maxRecords = 100;

/** Returns the schema of the arguments of a tool that lists records. */
export const recordArguments = (hasChoice: boolean): JsonObject =>
  closed({
    properties: {
      cursor: { type: "string", description: "`next_cursor` of the page before. Leave it out for the first page." },
      limit: { type: "integer", minimum: 1, maximum: maxRecords, description: `Records of a page (default: 20).` },
      modified_after: { type: "string", description: "Only records that changed after this time (ISO 8601)." },
      filter: {
        type: "array",
        items: { type: "string", enum: ["added", "updated", "deleted"] },
        description: "Only records whose last change is one of these.",
      },
      ...(hasChoice && { [connectionArgument]: connectionSchema }),
    },
  });

/** Returns a schema that refuses unknown arguments. */
export const closed = (parts: { readonly properties: JsonObject; readonly required?: string[] }): JsonObject => ({
  type: "object",
  ...parts,
  additionalProperties: false,
});

const headerNote = "x-mcp-header";

/**
 * Removes `x-mcp-header`, by which a schema makes clients repeat arguments as headers: the endpoint compares no such
 * headers, and one that nothing compares must not be sent.
 */
function withoutHeaderNotes(schema: JsonObject): JsonObject {
  const copy = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return value.map(copy);
    if (!isObject(value)) return value;
    const entries = Object.entries(value).filter(([key, held]) => key !== headerNote || typeof held !== "string");
    return Object.fromEntries(entries.map(([key, held]) => [key, copy(held)]));
  };
  return copy(schema) as JsonObject;
}

/** Returns the schema of an output if all clients take it: an object. */
export const outputSchemaOf = (output: JsonObject | undefined): JsonObject | undefined =>
  output?.["type"] === "object" ? output : undefined;
