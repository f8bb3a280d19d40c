import { LineCounter } from "yaml";
import { describeYamlError, type FilePath, parseYaml, pathText, positionIn } from "../base/yaml-places.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { ProviderMistake, readProvider } from "./read.ts";

/** A mistake in a file, in the form that editors and compilers use. */
export interface FileMistake {
  readonly line: number;
  readonly column: number;
  /** Empty for a mistake of the whole file. */
  readonly path: string;
  readonly message: string;
}

export interface CheckedFile {
  readonly providers: readonly Provider[];
  readonly mistakes: readonly FileMistake[];
}

/**
 * Reads a YAML file with one provider, a list of providers, or a configuration file, of which only `providers` is read.
 */
export function checkProviderFile(text: string): CheckedFile {
  const lines = new LineCounter();
  const document = parseYaml(text, lines);
  if (document.errors.length > 0) {
    const mistakes = document.errors.map((error) => {
      const { line, col } = lines.linePos(error.pos[0]);
      return { line, column: col, path: "", message: `the file is not YAML: ${describeYamlError(error, text)}` };
    });
    return { providers: [], mistakes };
  }
  let written: unknown;
  try {
    written = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    // A reference to an anchor that the file does not have, or too many references.
    if (!(error instanceof ReferenceError)) throw error;
    return { providers: [], mistakes: [{ line: 1, column: 1, path: "", message: error.message }] };
  }
  const checked = descriptionsIn(written).map(([at, description]) => checkDescription(at, description));
  return {
    providers: checked.flatMap(({ provider }) => provider ?? []),
    mistakes: checked
      .flatMap(({ wrong }) =>
        wrong.map(({ path, message }) => ({ ...positionIn(document, lines, path), path: pathText(path), message })),
      )
      .sort((a, b) => a.line - b.line || a.column - b.column),
  };
}

/** Returns the descriptions in a file, with their paths. */
function descriptionsIn(written: unknown): readonly (readonly [FilePath, unknown])[] {
  if (Array.isArray(written)) return written.map((one, i) => [[i], one]);
  const { providers } = Object(written) as { readonly providers?: unknown };
  if (Array.isArray(providers)) return providers.map((one, i) => [["providers", i], one]);
  return [[[], written]];
}

interface PathMistake {
  readonly path: FilePath;
  readonly message: string;
}

function checkDescription(
  at: FilePath,
  description: unknown,
): { readonly provider?: Provider; readonly wrong: readonly PathMistake[] } {
  try {
    return { provider: readProvider(description), wrong: [] };
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return { wrong: error.mistakes.map(({ path, message }) => ({ path: [...at, ...path], message })) };
  }
}
