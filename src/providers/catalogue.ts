import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { ProviderMistake, readProvider } from "./read.ts";

/** The providers that latchkey knows out of the box: one YAML file each, named as the provider. */
export function loadCatalogue(): ReadonlyMap<string, Provider> {
  const folder = new URL("./catalogue/", import.meta.url);
  const files = readdirSync(folder)
    .filter((name) => name.endsWith(".yaml"))
    .sort();
  return new Map(
    files.map((file) => {
      const provider = readFile(file, new URL(file, folder));
      if (`${provider.name}.yaml` !== file) throw new Error(`${file} describes "${provider.name}"`);
      return [provider.name, provider];
    }),
  );
}

function readFile(file: string, url: URL): Provider {
  try {
    return readProvider(parse(readFileSync(url, "utf8")));
  } catch (error) {
    if (error instanceof ProviderMistake) throw new Error(`the provider of ${file} is not valid: ${error.message}`);
    throw error;
  }
}
