import { SourceMap } from "node:module";

/** A position in a customer's file. */
export interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

const maxPlaces = 20;

/** Maps an engine stack to positions in the customer's own files, innermost first. */
export function placesOf(stack: string, map: string): readonly SourcePosition[] {
  const frames = [...stack.matchAll(/\bscript\.js:(\d+)(?::(\d+))?/g)];
  if (frames.length === 0) return [];
  const placeAt = placesIn(map);
  return frames
    .slice(0, maxPlaces * 5)
    .flatMap(([, line, column]) => placeAt(Number(line), Number(column ?? 1)) ?? [])
    .slice(0, maxPlaces);
}

/**
 * Returns a function that maps positions of the bundle to the customer's own files; undefined for other code. Decodes
 * the map once, which takes some milliseconds per MiB of bundle: reuse the function for many positions.
 */
export function placesIn(map: string): (line: number, column: number) => SourcePosition | undefined {
  if (map === "") return () => undefined;
  const source = new SourceMap(JSON.parse(map));
  return (line, column) => {
    const entry = source.findEntry(line - 1, column - 1);
    if (!("originalSource" in entry) || entry.originalSource === undefined) return undefined;
    const file = entry.originalSource;
    if (file.split("/").includes("node_modules") || file.startsWith("latchkey:") || file.startsWith("../")) {
      return undefined;
    }
    return { file, line: entry.originalLine + 1, column: entry.originalColumn + 1 };
  };
}

export const placeLine = ({ file, line, column }: SourcePosition): string => `${file}:${line}:${column}`;
