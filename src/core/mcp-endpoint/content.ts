import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../dialect/json-fields.ts";

/** What a script answers with is not what its kind must answer with. */
export class ContentMistake extends Error {
  override readonly name = "ContentMistake";
}

/** MCP content, as a tool answers with it. */
export interface ToolContent {
  readonly content: readonly JsonObject[];
  readonly structuredContent: JsonObject | undefined;
  readonly isError: boolean;
}

/** Reads the output of an action that answers with content. Throws `ContentMistake`. */
export function readToolContent(output: JsonValue): ToolContent {
  if (!isObject(output) || !("content" in output)) {
    return { content: blocksOf(output, "the output"), structuredContent: undefined, isError: false };
  }
  const { content, structuredContent, isError = false } = output;
  if (structuredContent !== undefined && !isObject(structuredContent)) {
    throw new ContentMistake("`structuredContent` must be an object");
  }
  if (typeof isError !== "boolean") throw new ContentMistake("`isError` must be true or false");
  return { content: blocksOf(content ?? [], "`content`"), structuredContent, isError };
}

/** Reads the output of a prompt: text, a list of messages, or an object with `messages`. Throws `ContentMistake`. */
export function readPrompt(output: JsonValue): JsonObject {
  const { messages, description } = isObject(output) ? output : { messages: output, description: undefined };
  if (description !== undefined && typeof description !== "string") {
    throw new ContentMistake("`description` must be text");
  }
  const list = typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
  if (!Array.isArray(list) || list.length === 0) {
    throw new ContentMistake("a prompt must answer with text, or with a list of messages");
  }
  return {
    ...(description !== undefined && { description }),
    messages: list.map((one, i) => messageOf(one, `messages[${i}]`)),
  };
}

/** Reads the output of a resource: text, `{ text }`, `{ blob }`, or a list of them; any other value is JSON. */
export function readResource(output: JsonValue, { uri, mimeType }: ResourceName): JsonObject[] {
  const isContents = (one: JsonValue): one is JsonObject =>
    isObject(one) && (typeof one["text"] === "string" || typeof one["blob"] === "string");
  const list = Array.isArray(output) && output.length > 0 && output.every(isContents) ? output : [output];
  return list.map((one, i) => {
    if (typeof one === "string") return { uri, mimeType: mimeType || "text/plain", text: one };
    if (!isContents(one)) return { uri, mimeType: mimeType || "application/json", text: JSON.stringify(one) };
    const { text, blob } = one;
    const named = typeof one["uri"] === "string" ? one["uri"] : uri;
    const type = typeof one["mimeType"] === "string" ? one["mimeType"] : mimeType;
    if (typeof text === "string") return { uri: named, mimeType: type || "text/plain", text };
    return { uri: named, mimeType: type || "application/octet-stream", blob: base64(blob, `[${i}].blob`) };
  });
}

interface ResourceName {
  readonly uri: string;
  /** Empty: not declared. */
  readonly mimeType: string;
}

function messageOf(given: JsonValue, at: string): JsonObject {
  if (!isObject(given)) throw new ContentMistake(`\`${at}\` must be an object`);
  const { role = "user", content } = given;
  if (role !== "user" && role !== "assistant") throw new ContentMistake(`\`${at}.role\` must be user or assistant`);
  return { role, content: blockOf(content ?? null, `${at}.content`) };
}

function blocksOf(given: JsonValue, at: string): JsonObject[] {
  const list = Array.isArray(given) ? given : [given];
  return list.map((one, i) => blockOf(one, `${at.replaceAll("`", "")}[${i}]`));
}

/** Text alone is a block as well. */
function blockOf(given: JsonValue, at: string): JsonObject {
  if (typeof given === "string") return { type: "text", text: given };
  if (!isObject(given)) throw new ContentMistake(`\`${at}\` must be a block of content`);
  const { type, annotations } = given;
  const more = isObject(annotations) ? { annotations } : {};
  switch (type) {
    case "text":
      return { type, text: textIn(given, "text", at), ...more };
    case "image":
    case "audio":
      return { type, data: base64(given["data"], `${at}.data`), mimeType: textIn(given, "mimeType", at), ...more };
    case "resource":
      return { type, resource: embedded(given["resource"], `${at}.resource`), ...more };
    case "resource_link":
      return { ...given, type, uri: textIn(given, "uri", at), name: textIn(given, "name", at) };
    default:
      throw new ContentMistake(`\`${at}.type\` must be text, image, audio, resource or resource_link`);
  }
}

function embedded(given: JsonValue | undefined, at: string): JsonObject {
  if (!isObject(given)) throw new ContentMistake(`\`${at}\` must be an object`);
  const { mimeType, text, blob } = given;
  const named: JsonObject = {
    uri: textIn(given, "uri", at),
    ...(typeof mimeType === "string" && { mimeType }),
  };
  if (typeof text === "string") return { ...named, text };
  return { ...named, blob: base64(blob, `${at}.blob`) };
}

function textIn(object: JsonObject, name: string, at: string): string {
  const value = object[name];
  if (typeof value === "string" && (value !== "" || name === "text")) return value;
  throw new ContentMistake(`\`${at}.${name}\` must be text`);
}

const isBase64 = /^[A-Za-z0-9+/]*={0,2}$/;

function base64(value: JsonValue | undefined, at: string): string {
  if (typeof value === "string" && value !== "" && value.length % 4 === 0 && isBase64.test(value)) return value;
  throw new ContentMistake(`\`${at}\` must be Base64`);
}
