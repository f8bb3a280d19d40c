import { LineCounter } from "yaml";
import type { Mistake } from "../base/fault.ts";
import { describeYamlError, type FilePath, parseYaml, pathText, positionIn } from "../base/yaml-places.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { incompleteParts } from "./incomplete.ts";
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
  /** What valid descriptions lack to be of use. */
  readonly warnings: readonly FileMistake[];
}

/** Says why a description cannot have its name; undefined: it can. */
type ProviderNameCheck = (name: string) => string | undefined;

/**
 * Reads a YAML file with one provider, a list of providers, or a configuration file, of which only `providers` is read.
 */
export function checkProviderFile(text: string, nameMistake: ProviderNameCheck = () => undefined): CheckedFile {
  try {
    return checkText(text, nameMistake);
  } catch (error) {
    // The parser calls itself for each level.
    if (!(error instanceof RangeError)) throw error;
    const message = "the file is nested too deeply";
    return { providers: [], mistakes: [{ line: 1, column: 1, path: "", message }], warnings: [] };
  }
}

function checkText(text: string, nameMistake: ProviderNameCheck): CheckedFile {
  const lines = new LineCounter();
  const document = parseYaml(text, lines);
  if (document.errors.length > 0) {
    const mistakes = document.errors.map((error) => {
      const { line, col } = lines.linePos(error.pos[0]);
      return { line, column: col, path: "", message: `the file is not YAML: ${describeYamlError(error, text)}` };
    });
    return { providers: [], mistakes, warnings: [] };
  }
  let written: unknown;
  try {
    written = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    // A reference to an anchor that the file does not have, or too many references.
    if (!(error instanceof ReferenceError)) throw error;
    return { providers: [], mistakes: [{ line: 1, column: 1, path: "", message: error.message }], warnings: [] };
  }
  const checked = descriptionsIn(written).map(([at, description]) => checkDescription(at, description, nameMistake));
  const placed = (found: readonly PathMistake[]): readonly FileMistake[] =>
    found
      .map(({ path, message }) => ({ ...positionIn(document, lines, path), path: pathText(path), message }))
      .sort((one, other) => one.line - other.line || one.column - other.column);
  return {
    providers: checked.flatMap(({ provider }) => provider ?? []),
    mistakes: placed(checked.flatMap(({ wrong }) => wrong)),
    warnings: placed(checked.flatMap(({ missing }) => missing)),
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

interface CheckedDescription {
  readonly provider?: Provider;
  readonly wrong: readonly PathMistake[];
  readonly missing: readonly PathMistake[];
}

function checkDescription(at: FilePath, description: unknown, nameMistake: ProviderNameCheck): CheckedDescription {
  const within = (found: readonly Mistake[]) => found.map(({ path, message }) => ({ path: [...at, ...path], message }));
  const { name } = Object(description) as { readonly name?: unknown };
  const wrongName = typeof name === "string" ? nameMistake(name) : undefined;
  const named: readonly Mistake[] = wrongName === undefined ? [] : [{ path: ["name"], message: wrongName }];
  try {
    const provider = readProvider(description);
    if (named.length > 0) return { wrong: within(named), missing: [] };
    return { provider, wrong: [], missing: within(incompleteParts(provider)) };
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return { wrong: within([...named, ...error.mistakes]), missing: [] };
  }
}
