import { readFileSync } from "node:fs";

/** Returns the JSON Schema of a provider file, which is generated from provider.proto. */
export const providerSchema = (): Uint8Array => readFileSync(new URL("./provider.schema.json", import.meta.url));
