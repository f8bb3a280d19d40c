import { create } from "@bufbuild/protobuf";
import { placeholderValues } from "../../core/outgoing/placeholder-values.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { TokenParties } from "./token-endpoint.ts";

type Params = Readonly<Record<string, string>>;
type FilledFor = Pick<TokenParties, "provider" | "integration" | "secrets" | "connectionConfig">;

/** Fills the further parameters that a description adds to a request. One whose value is missing is left out. */
export const filledParams = (params: Params, parties: FilledFor): Record<string, string> =>
  filled(params, parties, () => false);

/** The same for a request that a browser carries, which no secret may be part of. */
export const filledForBrowsers = (params: Params, parties: FilledFor): Record<string, string> => {
  const { isSecret } = valuesOf(parties);
  return filled(params, parties, isSecret);
};

function filled(params: Params, parties: FilledFor, isLeftOut: (name: string) => boolean): Record<string, string> {
  // Hardly any description has placeholders here.
  if (!Object.values(params).some((text) => text.includes("${"))) return { ...params };
  const { read } = valuesOf(parties);
  const texts = Object.entries(params).flatMap(([name, text]) => {
    const isComplete = namesIn(text).every((one) => !isLeftOut(one) && read(one) !== undefined);
    return isComplete ? [[name, text.replaceAll(placeholder, (_, one: string) => read(one) ?? "")]] : [];
  });
  return Object.fromEntries(texts);
}

const placeholder = /\$\{([^}]*)\}/g;
const namesIn = (text: string): string[] => [...text.matchAll(placeholder)].map(([, name = ""]) => name);

const valuesOf = ({ provider, integration, secrets, connectionConfig }: FilledFor) =>
  placeholderValues({
    connection: { connectionConfig },
    integration,
    secrets,
    provider,
    credentials: create(CredentialsSchema),
  });
