import { readConfigFile } from "./read-file.ts";
import type { FileReader } from "./secrets.ts";

/** One difference between two configuration files, by the name of the thing: `integrations.prod/calendar.oauth.client_id`. */
export interface ConfigChange {
  readonly path: string;
  readonly kind: "added" | "removed" | "changed";
  /** As they are shown; undefined: there was nothing, there is nothing, or it may be a secret. */
  readonly before?: string;
  readonly after?: string;
}

type Tree = { readonly [key: string]: unknown };

/** Lists whose items have a name of their own: their order says nothing. */
const namedBy: Readonly<Record<string, (item: Tree) => string>> = {
  environments: ({ name }) => String(name),
  integrations: ({ environment, key }) => `${String(environment)}/${String(key)}`,
  providers: ({ name }) => String(name),
  keys: ({ id }) => String(id),
  aliases: ({ name }) => String(name),
};

/** What may hold a secret in the open: a script's variable, or a field that is called one. */
const mayBeSecret = /(^|\.)variables\.|secret|password|token|private|certificate|key$/i;

interface DiffSource {
  readonly before: string;
  readonly after: string;
  readonly files: FileReader;
}

/** Both files must be valid: check them first. */
export function diffConfig({ before, after, files }: DiffSource): readonly ConfigChange[] {
  const [old, next] = [before, after].map((path) => leavesOf(treeOf(path, files)));
  if (old === undefined || next === undefined) return [];
  const paths = [...new Set([...old.keys(), ...next.keys()])].toSorted();
  return paths.flatMap((path): ConfigChange[] => {
    const [was, is] = [old.get(path), next.get(path)];
    if (was === is) return [];
    const kind = was === undefined ? "added" : is === undefined ? "removed" : "changed";
    if (mayBeSecret.test(path) && !(isReference(was) && isReference(is))) return [{ path, kind }];
    return [{ path, kind, ...(was !== undefined && { before: was }), ...(is !== undefined && { after: is }) }];
  });
}

function treeOf(path: string, files: FileReader): Tree {
  const mistakes: string[] = [];
  const { file } = readConfigFile({ path, files, refuse: (message) => void mistakes.push(message) });
  if (mistakes.length > 0) throw new Error(mistakes.join("; "));
  return file as Tree;
}

/** Where a secret is found is no secret. */
const isReference = (text: string | undefined): boolean =>
  text === undefined || /^\{"(env|file)":"[^"]*"\}$/.test(text);

/** Every value that is no object or named list, by its path. */
function leavesOf(tree: Tree, path: readonly string[] = [], found = new Map<string, string>()): Map<string, string> {
  for (const [key, value] of Object.entries(tree)) {
    const at = [...path, key];
    const nameOf = Array.isArray(value) ? namedBy[key] : undefined;
    if (nameOf !== undefined) {
      leavesOf(Object.fromEntries((value as Tree[]).map((item) => [nameOf(item), item])), at, found);
    } else if (isTree(value) && !isReference(JSON.stringify(value))) {
      // What holds nothing is there all the same.
      if (Object.keys(value).length === 0) found.set(at.join("."), "{}");
      leavesOf(value, at, found);
    } else if (value !== undefined) found.set(at.join("."), JSON.stringify(value));
  }
  return found;
}

const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);
