import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../../dialect/json-fields.ts";
import { AnswerMistake, readFormContent } from "./form-answer.ts";
import type { ScriptQuestion } from "./questions.ts";

/** Returns the answer to a question as the script gets it. Throws `AnswerMistake`. */
export function readAnswer({ name, kind, params }: ScriptQuestion, given: JsonValue): JsonObject {
  try {
    if (!isObject(given)) throw new AnswerMistake("it must be an object");
    switch (kind) {
      case "form":
        return formAnswer(given, params["requestedSchema"]);
      case "sampling":
        return sampledMessage(given);
      case "roots":
        return roots(given);
    }
  } catch (error) {
    if (!(error instanceof AnswerMistake)) throw error;
    throw new AnswerMistake(`the answer \`${name}\` is not valid: ${error.message}`);
  }
}

function formAnswer({ action, content }: JsonObject, schema: JsonValue | undefined): JsonObject {
  if (action === "decline" || action === "cancel") return { action };
  if (action !== "accept") throw new AnswerMistake("`action` must be accept, decline or cancel");
  return { action, content: readFormContent(content ?? {}, isObject(schema) ? schema : {}) };
}

function sampledMessage({ role, content, model, stopReason }: JsonObject): JsonObject {
  if (role !== "assistant" && role !== "user") throw new AnswerMistake("`role` must be assistant or user");
  const blocks = Array.isArray(content) ? content : [content];
  const areBlocks = blocks.every((one) => isObject(one) && typeof one["type"] === "string");
  if (content === undefined || !areBlocks) throw new AnswerMistake("`content` must be a block of content");
  if (typeof model !== "string") throw new AnswerMistake("`model` must be text");
  return { role, content, model, ...(typeof stopReason === "string" && { stopReason }) };
}

function roots({ roots: given }: JsonObject): JsonObject {
  if (!Array.isArray(given)) throw new AnswerMistake("`roots` must be a list");
  return {
    roots: given.map((one): JsonObject => {
      const { uri, name } = isObject(one) ? one : {};
      if (typeof uri !== "string") throw new AnswerMistake("`roots` must have a `uri` each");
      return { uri, ...(typeof name === "string" && { name }) };
    }),
  };
}
