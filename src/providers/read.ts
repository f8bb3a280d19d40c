import { type DescMessage, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import type { Mistake } from "../base/fault.ts";
import { suggestion } from "../base/similar.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
import { checkProvider } from "./check.ts";

/** An unusable provider description, with every reason. */
export class ProviderMistake extends Error {
  override readonly name = "ProviderMistake";
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(mistakes.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "));
    this.mistakes = mistakes;
  }
}

const validator = createValidator();

/** Reads a description in the format of the catalogue, the configuration file and the control plane. */
export function readProvider(json: unknown): Provider {
  const unknown = unknownFields(ProviderSchema, json);
  if (unknown.length > 0) throw new ProviderMistake(unknown);
  let provider: Provider;
  try {
    // fromJson rejects any value that is not JSON of this message.
    provider = fromJson(ProviderSchema, json as JsonValue);
  } catch (error) {
    throw new ProviderMistake([
      { path: [], message: error instanceof Error ? error.message : "the description is not valid" },
    ]);
  }
  requireProvider(provider);
  return provider;
}

/** Finds fields that the message does not have: the decoder names neither their place nor a similar field. */
function unknownFields(schema: DescMessage, json: unknown, at: readonly string[] = []): Mistake[] {
  // Messages such as Duration have a JSON form of their own.
  if (typeof json !== "object" || json === null || Array.isArray(json) || schema.file.name.startsWith("google/")) {
    return [];
  }
  return Object.entries(json).flatMap(([key, value]) => {
    const field = schema.fields.find(({ name, jsonName }) => key === name || key === jsonName);
    const path = [...at, key];
    if (field === undefined) {
      const names = schema.fields.map(({ name }) => name);
      return [{ path, message: `is not a field of a provider description${suggestion(key, names)}` }];
    }
    const { message } = field;
    if (message === undefined) return [];
    if (field.fieldKind === "message") return unknownFields(message, value, path);
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([item, inner]) => unknownFields(message, inner, [...path, item]));
  });
}

export function requireProvider(provider: Provider): void {
  const { kind, violations = [] } = validator.validate(ProviderSchema, provider);
  const broken = violations.map(({ field, message }) => ({
    path: field.map((step) => ("name" in step ? String(step.name) : "")),
    message,
  }));
  const mistakes = [...(kind === "invalid" ? broken : []), ...checkProvider(provider)];
  if (mistakes.length > 0) throw new ProviderMistake(mistakes);
}
