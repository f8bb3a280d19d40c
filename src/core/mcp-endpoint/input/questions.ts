import { hash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { canonicalJson } from "../../dialect/canonical-json.ts";
import { isObject } from "../../dialect/json-fields.ts";
import type { ClientAbilities } from "../../scripts/script-client.ts";
import { ContentMistake, readPrompt } from "../content.ts";
import { FormMistake, readFormSchema } from "./form-schema.ts";

/** A question of a script to the client of its run. */
export interface ScriptQuestion {
  readonly name: string;
  readonly kind: "form" | "sampling" | "roots";
  /** The request as clients take it. */
  readonly method: string;
  readonly params: JsonObject;
  /** Equal for the same question under the same name only: an answer counts for nothing else. */
  readonly digest: string;
}

const maxQuestions = 10;
const maxBytes = 64 * 1024;
const maxDepth = 20;
/** Latchkey itself asks under these. */
const ownNames: ReadonlySet<string> = new Set(["connect", "approval"]);

/** Reads the questions of a script, by their names. Throws `FormMistake`. */
export function readQuestions(given: JsonObject): ScriptQuestion[] {
  const entries = Object.entries(given);
  if (entries.length === 0 || entries.length > maxQuestions) {
    throw new FormMistake(`the questions must be an object with 1 to ${maxQuestions} names`);
  }
  const text = canonicalJson(given, maxDepth);
  if (text === undefined || text.length > maxBytes) {
    throw new FormMistake(`the questions must have at most ${maxBytes / 1024} KiB, and ${maxDepth} levels`);
  }
  return entries.map(([name, question]) => {
    if (!/^[\w.-]{1,64}$/.test(name) || ownNames.has(name)) {
      throw new FormMistake("the name of a question must be 1 to 64 of A-Z a-z 0-9 _ . -, and not connect or approval");
    }
    try {
      const read = readQuestion(question);
      const about = canonicalJson([name, read.method, read.params], maxDepth + 2) ?? "";
      return { name, ...read, digest: hash("sha256", about, "base64url").slice(0, 22) };
    } catch (error) {
      if (!(error instanceof FormMistake || error instanceof ContentMistake)) throw error;
      throw new FormMistake(`the question \`${name}\` is not valid: ${error.message}`);
    }
  });
}

type ReadQuestion = Pick<ScriptQuestion, "kind" | "method" | "params">;

function readQuestion(given: JsonValue | undefined): ReadQuestion {
  if (!isObject(given)) throw new FormMistake("it must be an object");
  const { kind, ...rest } = given;
  switch (kind) {
    case "form":
      return form(rest);
    case "sampling":
      return sampling(rest);
    case "roots":
      refuseUnknown(rest);
      return { kind, method: "roots/list", params: {} };
    default:
      throw new FormMistake("`kind` must be form, sampling or roots");
  }
}

function form({ message, schema, ...unknown }: JsonObject): ReadQuestion {
  refuseUnknown(unknown);
  if (typeof message !== "string" || message === "") throw new FormMistake("`message` must be text");
  const requestedSchema = readFormSchema(schema);
  return { kind: "form", method: "elicitation/create", params: { mode: "form", message, requestedSchema } };
}

const sampled: ReadonlySet<JsonValue | undefined> = new Set(["text", "image", "audio"]);

function sampling(given: JsonObject): ReadQuestion {
  const { messages, maxTokens, systemPrompt, temperature, stopSequences, modelPreferences, metadata, ...unknown } =
    given;
  refuseUnknown(unknown);
  const read = readPrompt(messages ?? null)["messages"];
  const areSampled =
    Array.isArray(read) &&
    read.every((one) => isObject(one) && isObject(one["content"]) && sampled.has(one["content"]["type"]));
  if (!areSampled) throw new FormMistake("`messages` must have content of the types text, image and audio");
  if (typeof maxTokens !== "number" || !Number.isSafeInteger(maxTokens) || maxTokens < 1) {
    throw new FormMistake("`maxTokens` must be a whole number");
  }
  if (systemPrompt !== undefined && typeof systemPrompt !== "string") {
    throw new FormMistake("`systemPrompt` must be text");
  }
  if (temperature !== undefined && typeof temperature !== "number") {
    throw new FormMistake("`temperature` must be a number");
  }
  const areStops = stopSequences === undefined || isTexts(stopSequences);
  if (!areStops) throw new FormMistake("`stopSequences` must be a list of text");
  for (const [name, value] of Object.entries({ modelPreferences, metadata })) {
    if (value !== undefined && !isObject(value)) throw new FormMistake(`\`${name}\` must be an object`);
  }
  const params: JsonObject = {
    messages: read,
    maxTokens,
    ...(systemPrompt !== undefined && { systemPrompt }),
    ...(temperature !== undefined && { temperature }),
    ...(stopSequences !== undefined && { stopSequences }),
    ...(modelPreferences !== undefined && { modelPreferences }),
    ...(metadata !== undefined && { metadata }),
  };
  return { kind: "sampling", method: "sampling/createMessage", params };
}

const isTexts = (value: JsonValue): boolean => Array.isArray(value) && value.every((one) => typeof one === "string");

function refuseUnknown(unknown: JsonObject): void {
  const [name] = Object.keys(unknown);
  if (name !== undefined) throw new FormMistake(`\`${name.slice(0, 100)}\` is unknown`);
}

const needs = {
  form: { can: "forms", capability: "elicitation" },
  sampling: { can: "sampling", capability: "sampling" },
  roots: { can: "roots", capability: "roots" },
} as const;

/** Returns the capabilities that questions need and a client has not declared, as the protocol names them. */
export function lackingCapabilities(questions: readonly ScriptQuestion[], abilities: ClientAbilities): JsonObject {
  const lacking = questions.map(({ kind }) => needs[kind]).filter(({ can }) => !abilities[can]);
  return Object.fromEntries(
    lacking.map(({ capability }) => [capability, capability === "elicitation" ? { form: {} } : {}]),
  );
}
