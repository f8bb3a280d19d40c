import { SourceMap } from "node:module";

/** A place in a customer's file. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

const mostPlaces = 20;

/** Where in the customer's own files a stack of the engine's leads, innermost first. */
export function placesOf(stack: string, map: string): readonly Place[] {
  const frames = [...stack.matchAll(/\bscript\.js:(\d+)(?::(\d+))?/g)];
  if (frames.length === 0 || map === "") return [];
  const source = new SourceMap(JSON.parse(map));
  const places = frames.slice(0, mostPlaces * 5).flatMap(([, line, column]): Place[] => {
    const entry = source.findEntry(Number(line) - 1, Number(column ?? 1) - 1);
    if (!("originalSource" in entry) || entry.originalSource === undefined) return [];
    const file = entry.originalSource;
    if (file.split("/").includes("node_modules") || file.startsWith("latchkey:") || file.startsWith("../")) return [];
    return [{ file, line: entry.originalLine + 1, column: entry.originalColumn + 1 }];
  });
  return places.slice(0, mostPlaces);
}

export const placeLine = ({ file, line, column }: Place): string => `${file}:${line}:${column}`;
