import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import type { Mistake } from "../base/fault.ts";
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
  let provider: Provider;
  try {
    // fromJson rejects any value that is not JSON of this message.
    provider = fromJson(ProviderSchema, json as JsonValue);
  } catch (error) {
    throw new ProviderMistake([{ path: [], message: error instanceof Error ? error.message : "is not valid" }]);
  }
  requireProvider(provider);
  return provider;
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
