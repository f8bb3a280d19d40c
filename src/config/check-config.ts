import { suggestion } from "../base/similar.ts";
import { loadCatalogue } from "../providers/catalogue.ts";
import { type Config, ConfigMistakes, parseConfig } from "./config.ts";
import { readConfigFile } from "./read-file.ts";
import type { FileReader } from "./secrets.ts";

/** The result of a check, which opens no store, creates no key and starts no listener. */
export interface CheckedConfig {
  readonly mistakes: readonly string[];
  readonly warnings: readonly string[];
}

interface CheckSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
  /** Replaces the file that `LATCHKEY_CONFIG` names. */
  readonly file: string | undefined;
}

/** Replaces the seal keys when a file is checked on a machine that does not have them. */
const placeholder = `check:${Buffer.alloc(32).toString("base64")}`;

export function checkConfig({ env, files, file }: CheckSource): CheckedConfig {
  const lacksSealKeys = !env["LATCHKEY_SEAL_KEYS"] && !env["LATCHKEY_SEAL_KEYS_FILE"];
  const isFileAlone = file !== undefined && lacksSealKeys;
  const checked = {
    ...env,
    ...(file !== undefined && { LATCHKEY_CONFIG: file }),
    ...(isFileAlone && { LATCHKEY_SEAL_KEYS: placeholder }),
  };
  const notes = [
    ...(isFileAlone ? ["LATCHKEY_SEAL_KEYS is not set here, and was not checked"] : []),
    ...(checked["LATCHKEY_CONFIG"]?.trim()
      ? []
      : ["no configuration file was checked: give FILE, or set LATCHKEY_CONFIG"]),
  ];
  try {
    const config = parseConfig({ env: checked, files });
    const aliases = Map.groupBy(config.undeclaredAliases, ({ isCertain }) => isCertain);
    const mistakes = [...unknownProviders(config, files), ...(aliases.get(true) ?? []).map(({ mistake }) => mistake)];
    const maybe = (aliases.get(false) ?? []).map(
      ({ mistake }) => `${mistake}; requests to the alias are refused until its target exists`,
    );
    return { mistakes, warnings: [...config.warnings, ...maybe, ...notes] };
  } catch (error) {
    if (!(error instanceof ConfigMistakes)) throw error;
    return { mistakes: error.mistakes, warnings: notes };
  }
}

/** Finds integrations of unknown providers. Only a running Latchkey knows custom providers that were added over the API. */
function unknownProviders({ configFile, declared }: Config, files: FileReader): readonly string[] {
  if (configFile === undefined) return [];
  const { file, locate } = readConfigFile({ path: configFile, files, refuse: () => {} });
  const known = new Set([...loadCatalogue().keys(), ...declared.providers.map(({ name }) => name)]);
  return (file.integrations ?? []).flatMap(({ key, provider }, i) => {
    if (provider === undefined || known.has(provider)) return [];
    const at = locate(["integrations", i, "provider"]);
    const wrong = `the provider "${provider}" is neither in the catalog nor declared in the file`;
    return [`${at}: the integration "${key}": ${wrong}${suggestion(provider, known)}`];
  });
}
