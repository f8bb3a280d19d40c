import { type Document, type LineCounter, parseDocument, type YAMLError } from "yaml";

export type FilePath = readonly (string | number)[];

export interface FilePosition {
  readonly line: number;
  readonly column: number;
}

/** Writes a path as people do: `providers[1].oauth2.token_url`. */
export const pathText = (path: FilePath): string =>
  path.reduce<string>((text, step) => {
    if (/^\d+$/.test(String(step))) return `${text}[${step}]`;
    return text === "" ? String(step) : `${text}.${step}`;
  }, "");

/** Returns the position of a value in a YAML document, or of its nearest parent. */
export function positionIn(document: Document, lines: LineCounter, path: FilePath): FilePosition {
  const { line, col } = lines.linePos(offsetOf(document, path));
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function offsetOf(document: Document, path: FilePath): number {
  for (let length = path.length; length > 0; length -= 1) {
    const [parent, last] = [path.slice(0, length - 1), path[length - 1]];
    // A mistake in a value is shown at its key, one in a list item at the item.
    const pair = pairIn(parent.length === 0 ? document.contents : document.getIn(parent, true), last);
    const node = pair ?? document.getIn(path.slice(0, length), true);
    const start = rangeOf(node)?.[0];
    if (start !== undefined) return start;
  }
  return rangeOf(document.contents)?.[0] ?? 0;
}

/** Returns the node of the key with this name. */
function pairIn(map: unknown, name: string | number | undefined): unknown {
  const { items } = Object(map) as { readonly items?: readonly unknown[] };
  const pair = items?.find((one) => Object((Object(one) as { key?: unknown }).key).value === name);
  return pair === undefined ? undefined : (pair as { readonly key?: unknown }).key;
}

const rangeOf = (node: unknown): readonly number[] | undefined => (Object(node) as { range?: readonly number[] }).range;

/** Improves messages of the parser, which names neither a duplicate key nor the remedy for two documents. */
export function describeYamlError({ code, message, pos }: YAMLError, text: string): string {
  const [name] = /^[\w.-]+/.exec(text.slice(pos[0])) ?? [];
  if (code === "DUPLICATE_KEY" && name !== undefined) return `the key "${name}" is a duplicate`;
  if (code === "MULTIPLE_DOCS") return "a second document begins here (---); the file must have one";
  return message;
}

export const parseYaml = (text: string, lineCounter: LineCounter): Document =>
  parseDocument(text, { lineCounter, prettyErrors: false });
