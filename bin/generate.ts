/** Generates the committed files: code from proto/, the JSON Schema of the configuration file, the catalogue, reference pages. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { configurationSchema } from "./file-schema.ts";
import { writeProviderSchema } from "./provider-schema.ts";
import { root, script, tool } from "./steps.ts";

/** Writes into the checkout, or into another folder for a comparison. */
export function generate(folder: string): boolean {
  const schema = configurationSchema();
  const { provider, definitions } = writeProviderSchema(folder);
  const titled = {
    ...schema,
    title: "The configuration file of latchkey",
    properties: {
      ...schema.properties,
      providers: { ...schema.properties["providers"], items: { $ref: "#/$defs/Provider" } },
    },
    $defs: { ...definitions, Provider: provider },
  };
  writeFileSync(join(folder, "src/config/file.schema.json"), `${JSON.stringify(titled, undefined, 2)}\n`);
  return (
    tool("buf", "generate", "--output", folder) &&
    script("encoders.ts", folder) &&
    script("readers.ts", folder) &&
    script("catalogue.ts", folder) &&
    script("documents.ts", folder)
  );
}

if (import.meta.main) process.exitCode = generate(root) ? 0 : 1;
