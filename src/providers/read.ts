import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import type { Mistake } from "../base/fault.ts";
import { checkRules } from "../base/proto-rules.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
import { checkProvider } from "./check.ts";
import { fieldMistakes } from "./field-mistakes.ts";

/** An unusable provider description, with every reason. */
export class ProviderMistake extends Error {
  override readonly name = "ProviderMistake";
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(mistakes.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "));
    this.mistakes = mistakes;
  }
}

/** Reads a description in the format of the catalogue, the configuration file and the control plane. */
export function readProvider(json: unknown): Provider {
  const wrong = fieldMistakes(ProviderSchema, json);
  // What fits is checked further, so that one run reports all mistakes.
  const rest = wrong.length === 0 ? json : without(json, wrong);
  let provider: Provider;
  try {
    // fromJson rejects any value that is not JSON of this message.
    provider = fromJson(ProviderSchema, rest as JsonValue);
  } catch (error) {
    if (wrong.length > 0) throw new ProviderMistake(wrong);
    const why = error instanceof Error ? error.message.replace(/^cannot decode \S+ \S+ from JSON: /, "") : undefined;
    throw new ProviderMistake([{ path: [], message: why ?? "the description is not valid" }]);
  }
  // An unknown key may be the one that a further mistake misses.
  const isFollowing = ({ path }: Mistake) =>
    wrong.some((one) => (path.length === 0 ? one.path.length === 1 : isWithin(path, one.path)));
  const further = providerMistakes(provider).filter((one) => !isFollowing(one));
  if (wrong.length + further.length > 0) throw new ProviderMistake([...wrong, ...further]);
  return provider;
}

/** Returns a copy without the values at these paths. */
function without(json: unknown, mistakes: readonly Mistake[]): unknown {
  const rest = structuredClone(json);
  for (const { path } of mistakes) {
    const holder = path.slice(0, -1).reduce<unknown>((value, key) => Object(value)[key], rest);
    const last = path.at(-1);
    if (last === undefined) return {};
    if (Array.isArray(holder)) holder[Number(last)] = undefined;
    else Reflect.deleteProperty(Object(holder), last);
  }
  return rest;
}

/** Reports whether one of the paths leads to a part of the other: a mistake that may follow from the other. */
const isWithin = (path: readonly string[], other: readonly string[]): boolean =>
  path.every((step, i) => i >= other.length || step === other[i]);

export function requireProvider(provider: Provider): void {
  const mistakes = providerMistakes(provider);
  if (mistakes.length > 0) throw new ProviderMistake(mistakes);
}

/** Finds what the schema cannot express. `auth` in a path becomes the field that is set, such as `oauth2`. */
function providerMistakes(provider: Provider): Mistake[] {
  const { kind, violations = [] } = checkRules(ProviderSchema, provider);
  const broken = (kind === "invalid" ? violations : []).flatMap(({ field, message }) =>
    // A missing kind of authentication is reported by `checkProvider`.
    field.at(-1)?.kind === "oneof" ? [] : [{ path: field.map(stepName), message }],
  );
  const { case: auth } = provider.auth;
  const name = auth === undefined ? [] : [ProviderSchema.field[auth].name];
  return [...broken, ...checkProvider(provider)].map(({ path, message }) => ({
    path: path[0] === "auth" ? [...name, ...path.slice(1)] : path,
    message: plainMessage(message, path),
  }));
}

/** Rewords messages of the validator. Names of providers and of headers have a pattern. */
const plainMessage = (message: string, path: readonly string[]): string =>
  message
    .replace(/^must be in list \[(?:"", )?(.*)\]$/, (_, list: string) => `must be one of ${list}`)
    .replace(
      /^does not match regex pattern .*$/s,
      path.at(-1) === "header"
        ? "must be a header name in lower case"
        : "must be lower-case letters, digits and dashes",
    );

type Step = { readonly name: string } | { readonly index: number } | { readonly key: unknown };

function stepName(step: Step | object): string {
  if ("name" in step) return String(step.name);
  if ("index" in step) return String(step.index);
  return "key" in step ? String(step.key) : "";
}
