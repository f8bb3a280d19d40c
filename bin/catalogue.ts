/** Validates the catalogue's YAML files and writes the one file that latchkey loads, with one provider a line. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { toJson } from "@bufbuild/protobuf";
import { ProviderSchema } from "../src/gen/latchkey/v1/provider_pb.ts";
import { checkProviderFile } from "../src/providers/check-file.ts";
import { root } from "./steps.ts";

const folder = "src/providers/catalogue";
const fixtures = "test/fixtures/providers";

function lineOf(file: string): string {
  const { providers, mistakes } = checkProviderFile(readFileSync(join(root, folder, file), "utf8"));
  const [provider] = providers;
  const isNamed = provider !== undefined && `${provider.name}.yaml` === file;
  if (isNamed && existsSync(join(root, fixtures, file)))
    return JSON.stringify(toJson(ProviderSchema, provider, { useProtoFieldName: true }));
  const message = isNamed ? `has no fixture ${fixtures}/${file}` : "must be the name of the file";
  for (const { line, column, path, message: text } of mistakes.length > 0
    ? mistakes
    : [{ line: 1, column: 1, path: isNamed ? "" : "name", message }])
    process.stdout.write(`${folder}/${file}:${line}:${column}: ${path === "" ? "" : `${path}: `}${text}\n`);
  process.exitCode = 1;
  return "";
}

const files = readdirSync(join(root, folder))
  .filter((name) => name.endsWith(".yaml"))
  .sort();
const lines = files.map(lineOf);
const [, , into = root] = process.argv;
if (!lines.includes("")) writeFileSync(join(into, "src/providers/catalogue.json"), `[\n${lines.join(",\n")}\n]\n`);
