import { isReference, leavesOf, mayBeSecret, treeOf, withoutUrlSecrets } from "./diff-config.ts";
import type { FileReader } from "./secrets.ts";
import { variables } from "./variables.ts";

/** A setting in force, and where its value is from. */
export interface ConfigSetting {
  readonly name: string;
  /** Secrets are `***`. */
  readonly value: string;
  readonly from: "env" | "file" | "default";
}

interface ShowSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
  /** The configuration file; undefined if there is none. */
  readonly file: string | undefined;
}

/** Returns all variables, then all values of a valid configuration file. */
export function settingsOf({ env, files, file }: ShowSource): readonly ConfigSetting[] {
  const fromVariables = variables.map((variable): ConfigSetting => {
    const { name } = variable;
    const given = [name, "twin" in variable ? variable.twin : undefined].find((one) => one && env[one]);
    const isSecret = "secret" in variable && variable.secret;
    if (name === "LATCHKEY_CONFIG" && file !== undefined) {
      return { name, value: file, from: env[name] === undefined ? "file" : "env" };
    }
    if (given !== undefined) return { name, value: isSecret ? masked : shown(env[given] ?? ""), from: "env" };
    if (env[`${name}_FILE`]) return { name, value: `${masked} (in ${env[`${name}_FILE`]})`, from: "env" };
    return { name, value: variable.default, from: "default" };
  });
  if (file === undefined) return fromVariables;
  const fromFile = [...leavesOf(treeOf(file, files))].map(([name, json]): ConfigSetting => {
    const isSecret = mayBeSecret.test(name) && !isReference(json);
    return { name, value: isSecret ? masked : withoutUrlSecrets(plain(json)), from: "file" };
  });
  return [...fromVariables, ...fromFile];
}

const masked = "***";

const shown = (text: string) => withoutUrlSecrets(text);

/** Returns a text without the quotes of its JSON. */
const plain = (json: string): string => {
  const value: unknown = JSON.parse(json);
  return typeof value === "string" ? value : json;
};
