import type { ConfigSetting, PlacedSetting } from "../core/config-in-force.ts";
import { isReference, leavesOf, mayBeSecret, treeOf, withoutUrlSecrets } from "./diff-config.ts";
import type { FileReader } from "./secrets.ts";
import { variables } from "./variables.ts";

interface ShowSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
  /** The configuration file; undefined if there is none. */
  readonly file: string | undefined;
}

/** Returns all variables, then all values of a valid configuration file. */
export function settingsOf(source: ShowSource): readonly ConfigSetting[] {
  return placedSettings(source).map(({ name, value, from, line }) => ({
    name,
    value,
    from,
    ...(line !== undefined && { line }),
  }));
}

/** Like `settingsOf`, with all that is known of each. */
export function placedSettings({ env, files, file }: ShowSource): readonly PlacedSetting[] {
  const fromVariables = variables.map((variable): PlacedSetting => {
    const { name, meaning } = variable;
    const given = [name, "twin" in variable ? variable.twin : undefined].find((one) => one && env[one]);
    const isSecret = "secret" in variable && variable.secret;
    const known = { name, meaning, isSecret };
    if (name === "LATCHKEY_CONFIG" && file !== undefined) {
      const isGiven = env[name] !== undefined;
      return { ...known, value: file, from: isGiven ? "env" : "file", ...(isGiven && { variable: name }) };
    }
    if (given !== undefined) {
      const value = isSecret ? masked : shown(env[given] ?? "");
      return { ...known, value, from: "env", variable: given };
    }
    const secretFile = env[`${name}_FILE`];
    if (secretFile) {
      const value = `${masked} (in ${secretFile})`;
      return { ...known, value, from: "env", isSecret: true, variable: `${name}_FILE`, secretFile };
    }
    return { ...known, value: variable.default, from: "default", isSecret: false };
  });
  if (file === undefined) return fromVariables;
  const { tree, locate } = treeOf(file, files);
  const fromFile = [...leavesOf(tree)].map(([name, { json, at }]): PlacedSetting => {
    const isSecret = mayBeSecret.test(name) && !isReference(json);
    const value = isSecret ? masked : withoutUrlSecrets(plain(json));
    return { name, value, from: "file", isSecret, line: locate.line(at) };
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
