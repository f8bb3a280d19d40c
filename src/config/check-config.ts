import { loadCatalogue } from "../providers/catalogue.ts";
import { type Config, ConfigMistakes, parseConfig } from "./config.ts";
import type { FileReader } from "./secrets.ts";

/** A configuration that was read and is used for nothing: no store is opened, no key is made, nothing listens. */
export interface CheckedConfig {
  readonly mistakes: readonly string[];
  readonly warnings: readonly string[];
}

interface CheckSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
  /** In place of the one that `LATCHKEY_CONFIG` names. */
  readonly file: string | undefined;
}

/** Stands for the seal keys where a file is checked on a machine that does not have them. */
const placeholder = `check:${Buffer.alloc(32).toString("base64")}`;

export function checkConfig({ env, files, file }: CheckSource): CheckedConfig {
  const lacksSealKeys = !env["LATCHKEY_SEAL_KEYS"] && !env["LATCHKEY_SEAL_KEYS_FILE"];
  const isFileAlone = file !== undefined && lacksSealKeys;
  const checked = {
    ...env,
    ...(file !== undefined && { LATCHKEY_CONFIG: file }),
    ...(isFileAlone && { LATCHKEY_SEAL_KEYS: placeholder }),
  };
  const notes = isFileAlone ? ["LATCHKEY_SEAL_KEYS is not set here, and was not checked"] : [];
  try {
    const config = parseConfig({ env: checked, files });
    const mistakes = unknownProviders(config);
    return { mistakes, warnings: [...config.warnings, ...notes] };
  } catch (error) {
    if (!(error instanceof ConfigMistakes)) throw error;
    return { mistakes: error.mistakes, warnings: notes };
  }
}

/** A custom provider that was added over the API is known to the running latchkey alone. */
function unknownProviders({ declared: { integrations, providers } }: Config): readonly string[] {
  const known = new Set([...loadCatalogue().keys(), ...providers.map(({ name }) => name)]);
  return integrations
    .filter(({ provider }) => !known.has(provider))
    .map(
      ({ key, provider }) =>
        `the integration "${key}": the provider "${provider}" is neither in the catalogue nor declared in the file`,
    );
}
