import { mistakeInTemplate } from "../core/mcp-endpoint/uri-template.ts";
import type { ActionMcp } from "../core/scripts/script.ts";

const usual: ActionMcp = { kind: "tool", answers: "output" };

/** Reads how an action appears to MCP clients. */
export function actionMcp(declared: unknown, addMistake: (message: string) => void): ActionMcp {
  if (declared === undefined) return usual;
  const fields = (typeof declared === "object" && declared !== null ? declared : {}) as Readonly<
    Record<string, unknown>
  >;
  switch (fields["kind"]) {
    case "tool":
      return tool(fields["answers"] ?? "output", addMistake);
    case "prompt":
      return { kind: "prompt" };
    case "resource":
      return resource(fields, addMistake);
    default:
      addMistake('mcp.kind must be "tool", "prompt" or "resource"');
      return usual;
  }
}

function tool(answers: unknown, addMistake: (message: string) => void): ActionMcp {
  if (answers === "output" || answers === "content") return { kind: "tool", answers };
  addMistake('mcp.answers must be "output" or "content"');
  return usual;
}

function resource(fields: Readonly<Record<string, unknown>>, addMistake: (message: string) => void): ActionMcp {
  const { uri, mimeType = "", follows = "" } = fields;
  const mistake = typeof uri === "string" ? mistakeInTemplate(uri) : "must be text";
  if (mistake !== undefined) addMistake(`mcp.uri ${mistake}`);
  if (typeof mimeType !== "string") addMistake("mcp.mimeType must be text");
  if (typeof follows !== "string") addMistake("mcp.follows must be the name of a model");
  return { kind: "resource", uri: String(uri), mimeType: String(mimeType), follows: String(follows) };
}
