/** Validates the catalogue's YAML files and writes the one file that latchkey loads, with one provider a line. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { toJson } from "@bufbuild/protobuf";
import { parse } from "yaml";
import { ProviderSchema } from "../src/gen/latchkey/v1/provider_pb.ts";
import { ProviderMistake, readProvider } from "../src/providers/read.ts";
import { root } from "./steps.ts";

const folder = join(root, "src/providers/catalogue");

function lineOf(file: string): string {
  try {
    const provider = readProvider(parse(readFileSync(join(folder, file), "utf8")));
    if (`${provider.name}.yaml` !== file)
      throw new ProviderMistake([{ path: ["name"], message: "must be the name of the file" }]);
    return JSON.stringify(toJson(ProviderSchema, provider, { useProtoFieldName: true }));
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    process.stdout.write(`${file}: ${error.message}\n`);
    process.exitCode = 1;
    return "";
  }
}

const files = readdirSync(folder)
  .filter((name) => name.endsWith(".yaml"))
  .sort();
const lines = files.map(lineOf);
const [, , into = root] = process.argv;
if (!lines.includes("")) writeFileSync(join(into, "src/providers/catalogue.json"), `[\n${lines.join(",\n")}\n]\n`);
