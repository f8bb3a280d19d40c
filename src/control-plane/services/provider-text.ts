import { type JsonObject, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import {
  type CheckProviderRequest,
  type CheckProviderResponseSchema,
  type Provider,
  ProviderSchema,
} from "../../gen/latchkey/v1/provider_pb.ts";

type CheckResponse = Omit<MessageInitShape<typeof CheckProviderResponseSchema>, "$typeName">;

/** Limits the mistakes of an answer. */
const maxMistakes = 200;

/** Checks a file with descriptions: by the rules of files, and whether their names are free. */
export async function checkProviderText(
  { text, replaces }: CheckProviderRequest,
  known: Pick<Broker["providers"], "lookUp">,
): Promise<CheckResponse> {
  // The reader of YAML is loaded only when it is used.
  const { checkProviderFile } = await import("../../providers/check-file.ts");
  const { providers, mistakes, warnings } = checkProviderFile(text, (name) => nameMistake(name, replaces, known));
  return {
    providers: [...providers],
    mistakes: mistakes.slice(0, maxMistakes).map((one) => ({ ...one })),
    warnings: warnings.slice(0, maxMistakes).map((one) => ({ ...one })),
  };
}

/** Says why a description cannot have its name. */
function nameMistake(name: string, replaces: string, known: Pick<Broker["providers"], "lookUp">): string | undefined {
  if (replaces !== "" && name !== replaces) return `must stay ${replaces}: a provider cannot be renamed`;
  const taken = known.lookUp(name);
  if (taken === undefined) return undefined;
  if (!taken.custom)
    return "is the name of a provider of the built-in catalog, which cannot be changed: choose another";
  if (taken.declared) return "is the name of a provider of the configuration file: change it there";
  return replaces === "" ? "is the name of another custom provider: choose another, or change that one" : undefined;
}

/** Returns a description as YAML, without the fields that only the server sets. */
export async function providerText(provider: Provider): Promise<string> {
  const { stringify } = await import("yaml");
  const own = { ...provider, custom: false, declared: false, revision: 0n };
  const written = toJson(ProviderSchema, own, { useProtoFieldName: true }) as JsonObject;
  const { created_at: _created, updated_at: _updated, ...description } = written;
  return stringify(description, { lineWidth: 0 });
}
