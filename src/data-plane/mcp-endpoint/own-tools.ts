import type { JsonObject } from "@bufbuild/protobuf";
import type { OwnToolName } from "../../core/mcp-endpoint/tool.ts";
import { closed } from "../../core/mcp-endpoint/tool-schemas.ts";

/** Longer lists of keys are left out of schemas: `list_connections` shows them. */
const maxKeys = 50;

export const requestMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
export const defaultAnswerBytes = 65_536;
export const maxAnswerBytes = 1_048_576;
export const maxFound = 50;
export const defaultFound = 10;

/** Returns a tool of our own as `tools/list` shows it. `integrations` are those that the caller may use. */
export function ownToolShown(tool: OwnToolName, integrations: readonly string[]): JsonObject {
  const keys = [...integrations].sort();
  const isShort = keys.length > 0 && keys.length <= maxKeys;
  const integration: JsonObject = {
    type: "string",
    ...(isShort && { enum: keys }),
    description: "Key of the integration.",
  };
  return { name: tool, ...describe(tool, integration) };
}

const connection: JsonObject = {
  type: "string",
  description: "ID of the connection. Needed only if the integration has several.",
};

function describe(tool: OwnToolName, integration: JsonObject): JsonObject {
  switch (tool) {
    case "search_tools":
      return {
        title: "Search tools",
        description:
          "Finds tools by words of their names and descriptions. Returns their names and input schemas. Call what you find with call_tool.",
        inputSchema: closed({
          properties: {
            query: { type: "string", description: "Words such as `create issue`. Empty: all tools, by name." },
            limit: { type: "integer", minimum: 1, maximum: maxFound, description: `Default: ${defaultFound}.` },
          },
        }),
        annotations: { readOnlyHint: true, openWorldHint: false },
      };
    case "call_tool":
      return {
        title: "Call a tool",
        description: "Calls a tool that search_tools has found.",
        inputSchema: closed({
          properties: {
            name: { type: "string", description: "Name of the tool." },
            arguments: { type: "object", description: "Arguments, by the input schema of the tool." },
          },
          required: ["name"],
        }),
      };
    case "list_connections":
      return {
        title: "List connections",
        description:
          "Lists the connected accounts: integration, ID and state. Those with another state than active need the user.",
        inputSchema: closed({
          properties: { integration, cursor: { type: "string", description: "`next_cursor` of the page before." } },
        }),
        annotations: { readOnlyHint: true, openWorldHint: false },
      };
    case "connect_account":
      return {
        title: "Connect an account",
        description:
          "Asks the user to connect an account of an integration, or to connect it again. Does nothing if it is connected and works.",
        inputSchema: closed({ properties: { integration, connection }, required: ["integration"] }),
        annotations: { destructiveHint: false },
      };
    case "provider_request":
      return {
        title: "Request to a provider's API",
        description:
          "Sends an HTTP request to the API of an integration. The credentials of the connection are added. Use it if no other tool fits.",
        inputSchema: requestArguments(integration),
        annotations: { openWorldHint: true },
      };
  }
}

const requestArguments = (integration: JsonObject): JsonObject =>
  closed({
    properties: {
      integration,
      connection,
      method: { type: "string", enum: [...requestMethods], description: "Default: GET." },
      path: { type: "string", description: "Path at the API, such as /repos/acme/shop/issues." },
      query: {
        type: "object",
        additionalProperties: {
          anyOf: [
            { type: ["string", "number", "boolean"] },
            { type: "array", items: { type: ["string", "number", "boolean"] } },
          ],
        },
        description: "Parameters of the query. A list repeats the parameter.",
      },
      headers: {
        type: "object",
        additionalProperties: { type: "string" },
        description: "Further headers. Never credentials.",
      },
      body: { description: "Text is sent as it is; any other value as JSON." },
      max_bytes: {
        type: "integer",
        minimum: 1,
        maximum: maxAnswerBytes,
        description: `Longer answers are cut (default: ${defaultAnswerBytes}).`,
      },
    },
    required: ["integration", "path"],
  });
