import type { FilePath } from "../base/yaml-places.ts";
import type { ConfigChange } from "../core/config-in-force.ts";
import { type Locate, readConfigFile } from "./read-file.ts";
import type { FileReader } from "./secrets.ts";

type Tree = { readonly [key: string]: unknown };

/** Lists whose items have names: their order does not matter. */
const namedBy: Readonly<Record<string, (item: Tree) => string>> = {
  environments: ({ name }) => String(name),
  integrations: ({ environment, key }) => `${String(environment)}/${String(key)}`,
  providers: ({ name }) => String(name),
  keys: ({ id }) => String(id),
  aliases: ({ name }) => String(name),
};

/** Paths of values that may be secret: variables of scripts, settings of integrations, and fields named like a secret. */
export const mayBeSecret = /(^|\.)(?:variables|settings)\.|secret|password|token|private|certificate|key$/i;

interface DiffSource {
  readonly before: string;
  readonly after: string;
  readonly files: FileReader;
}

/** Compares two valid files. */
export function diffConfig({ before, after, files }: DiffSource): readonly ConfigChange[] {
  const [old, next] = [before, after].map((path) => leavesOf(treeOf(path, files).tree));
  if (old === undefined || next === undefined) return [];
  const paths = [...new Set([...old.keys(), ...next.keys()])].toSorted();
  return paths.flatMap((path): ConfigChange[] => {
    const [was, is] = [old.get(path)?.json, next.get(path)?.json];
    if (was === is) return [];
    const kind = was === undefined ? "added" : is === undefined ? "removed" : "changed";
    if (mayBeSecret.test(path) && !(isReference(was) && isReference(is))) return [{ path, kind }];
    const [before, after] = [was && withoutUrlSecrets(was), is && withoutUrlSecrets(is)];
    if (before === after) return [{ path, kind }];
    return [{ path, kind, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }];
  });
}

/** Hides the password and the query's values of each URL in a JSON text: a query may hold a token. */
export const withoutUrlSecrets = (json: string): string =>
  json.replace(/\b[a-z][a-z0-9+.-]*:\/\/[^\s"\\]+/gi, (url) =>
    url
      .replace(/(?<=:\/\/[^/?#@:]*:)[^/?#@]*(?=@)/, "…")
      .replace(/(?<=\?)[^#]*/, (query) =>
        query.replace(/(^|&)([^=&]*)(=?)[^&]*/g, (_, and, name, is) => (is ? `${and}${name}=…` : `${and}…`)),
      ),
  );

/** Returns the values of a valid file, and their places. */
export function treeOf(path: string, files: FileReader): { readonly tree: Tree; readonly locate: Locate } {
  const mistakes: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  // A start may have an empty file.
  const { file, locate } = readConfigFile({ path, files, refuse, reportEmpty: () => {} });
  if (mistakes.length > 0) throw new Error(mistakes.join("; "));
  return { tree: file as Tree, locate };
}

/** Reports whether a value names the place of a secret, which is not secret itself. */
export const isReference = (text: string | undefined): boolean =>
  text === undefined || /^\{"(env|file)":"[^"]*"\}$/.test(text);

/** A value of the file: as JSON, and where it is written. */
export interface FileLeaf {
  readonly json: string;
  readonly at: FilePath;
}

/** Returns all values except objects and named lists, by path. */
export function leavesOf(tree: Tree): Map<string, FileLeaf> {
  const found = new Map<string, FileLeaf>();
  addLeaves(tree, { name: [], at: [] }, found);
  return found;
}

interface Branch {
  /** Path with the names of list items. */
  readonly name: readonly string[];
  /** Path with their indexes. */
  readonly at: FilePath;
}

function addLeaves(tree: Tree, branch: Branch, found: Map<string, FileLeaf>): void {
  for (const [key, value] of Object.entries(tree)) {
    const [name, at] = [
      [...branch.name, key],
      [...branch.at, key],
    ];
    const nameOf = Array.isArray(value) ? namedBy[key] : undefined;
    if (nameOf !== undefined) {
      for (const [i, item] of (value as Tree[]).entries()) {
        addLeaves(item, { name: [...name, nameOf(item)], at: [...at, i] }, found);
      }
    } else if (isTree(value) && !isReference(JSON.stringify(value))) {
      // An empty object is a value, too.
      if (Object.keys(value).length === 0) found.set(name.join("."), { json: "{}", at });
      addLeaves(value, { name, at }, found);
    } else if (value !== undefined) found.set(name.join("."), { json: JSON.stringify(value), at });
  }
}

const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);
