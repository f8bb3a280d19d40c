import { readConfigFile } from "./read-file.ts";
import type { FileReader } from "./secrets.ts";

/** One difference between two configuration files, by the name of the thing: `integrations.prod/calendar.oauth.client_id`. */
export interface ConfigChange {
  readonly path: string;
  readonly kind: "added" | "removed" | "changed";
  /** The values as shown; undefined if there is none, or if it may be a secret. */
  readonly before?: string;
  readonly after?: string;
}

type Tree = { readonly [key: string]: unknown };

/** Lists whose items have names: their order does not matter. */
const namedBy: Readonly<Record<string, (item: Tree) => string>> = {
  environments: ({ name }) => String(name),
  integrations: ({ environment, key }) => `${String(environment)}/${String(key)}`,
  providers: ({ name }) => String(name),
  keys: ({ id }) => String(id),
  aliases: ({ name }) => String(name),
};

/** Paths of values that may be secret: variables of scripts, and fields named like a secret. */
export const mayBeSecret = /(^|\.)variables\.|secret|password|token|private|certificate|key$/i;

interface DiffSource {
  readonly before: string;
  readonly after: string;
  readonly files: FileReader;
}

/** Compares two valid files. */
export function diffConfig({ before, after, files }: DiffSource): readonly ConfigChange[] {
  const [old, next] = [before, after].map((path) => leavesOf(treeOf(path, files)));
  if (old === undefined || next === undefined) return [];
  const paths = [...new Set([...old.keys(), ...next.keys()])].toSorted();
  return paths.flatMap((path): ConfigChange[] => {
    const [was, is] = [old.get(path), next.get(path)];
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

/** Returns the values of a valid file. */
export function treeOf(path: string, files: FileReader): Tree {
  const mistakes: string[] = [];
  const { file } = readConfigFile({ path, files, refuse: (message) => void mistakes.push(message) });
  if (mistakes.length > 0) throw new Error(mistakes.join("; "));
  return file as Tree;
}

/** Reports whether a value names the place of a secret, which is not secret itself. */
export const isReference = (text: string | undefined): boolean =>
  text === undefined || /^\{"(env|file)":"[^"]*"\}$/.test(text);

/** Returns all values except objects and named lists, by path. */
export function leavesOf(
  tree: Tree,
  path: readonly string[] = [],
  found = new Map<string, string>(),
): Map<string, string> {
  for (const [key, value] of Object.entries(tree)) {
    const at = [...path, key];
    const nameOf = Array.isArray(value) ? namedBy[key] : undefined;
    if (nameOf !== undefined) {
      leavesOf(Object.fromEntries((value as Tree[]).map((item) => [nameOf(item), item])), at, found);
    } else if (isTree(value) && !isReference(JSON.stringify(value))) {
      // An empty object is a value, too.
      if (Object.keys(value).length === 0) found.set(at.join("."), "{}");
      leavesOf(value, at, found);
    } else if (value !== undefined) found.set(at.join("."), JSON.stringify(value));
  }
  return found;
}

const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);
