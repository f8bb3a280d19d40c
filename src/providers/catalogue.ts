import { readFileSync } from "node:fs";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";

/**
 * The providers that latchkey knows out of the box. Written as YAML, one file each, and checked when `catalogue.json`
 * is generated from them: to do that anew took 0.3 s of every start, and reading what is generated takes 6 ms.
 */
export function loadCatalogue(): ReadonlyMap<string, Provider> {
  // We wrote it ourselves: a list of what fromJson takes.
  const providers = JSON.parse(readFileSync(new URL("./catalogue.json", import.meta.url), "utf8")) as JsonValue[];
  return new Map(
    providers.map((one) => {
      const provider = fromJson(ProviderSchema, one);
      return [provider.name, provider];
    }),
  );
}
