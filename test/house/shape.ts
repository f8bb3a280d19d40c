/** Measures the shape of the source: sizes, names and words. `limits.test.ts` holds the results to a table. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export interface SourceFile {
  /** Relative to the project, with slashes. */
  readonly path: string;
  readonly text: string;
  readonly lines: readonly string[];
}

export function sourceFiles(folder: string): SourceFile[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && !name.startsWith("gen/") && !name.includes("node_modules/"))
    .map((name) => {
      const path = `${folder}/${name}`;
      const text = readFileSync(join(root, path), "utf8");
      return { path, text, lines: text.split("\n") };
    });
}

/** `path (count)` of every folder with more files than `most`. */
export function crowdedFolders(files: readonly SourceFile[], most: number): string[] {
  const folders = Map.groupBy(files, ({ path }) => dirname(path));
  return [...folders]
    .filter(([, inside]) => inside.length > most)
    .map(([folder, inside]) => `${folder} (${inside.length})`);
}

export const longFiles = (files: readonly SourceFile[], most: number): string[] =>
  files.filter(({ lines }) => lines.length - 1 > most).map(({ path, lines }) => `${path} (${lines.length - 1})`);

/** `path:line (length)` of every function of at least `least` lines, closures counted whole. */
export function longFunctions(least: number): string[] {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-lengths-"));
  try {
    const rule = { level: "error", options: { maxLines: Math.floor(least / 2) } };
    writeFileSync(
      join(folder, "biome.json"),
      JSON.stringify({
        root: true,
        linter: { rules: { preset: "none", complexity: { noExcessiveLinesPerFunction: rule } } },
        formatter: { enabled: false },
        assist: { enabled: false },
      }),
    );
    const { stdout } = spawnSync(
      join(root, "node_modules/.bin/biome"),
      ["lint", `--config-path=${folder}`, "--reporter=json", "--max-diagnostics=none", "src"],
      { cwd: root, encoding: "utf8", maxBuffer: 2 ** 26 },
    );
    const { diagnostics } = JSON.parse(stdout) as { readonly diagnostics: readonly LengthDiagnostic[] };
    return diagnostics
      .filter(
        ({ category, location }) => category.endsWith("LinesPerFunction") && !location.path.startsWith("src/gen/"),
      )
      .map(({ location: { path, start, end } }) => ({ path, line: start.line, length: end.line - start.line + 1 }))
      .filter(({ length }) => length >= least)
      .map(({ path, line, length }) => `${path}:${line} (${length})`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface LengthDiagnostic {
  readonly category: string;
  readonly location: {
    readonly path: string;
    readonly start: { readonly line: number };
    readonly end: { readonly line: number };
  };
}

const importCount = ({ text }: SourceFile) => text.match(/^(?:import\b|\} from ")/gm)?.length ?? 0;
const multiLine = ({ text }: SourceFile) => text.match(/^import (?:type )?\{$/gm)?.length ?? 0;

export const manyImports = (files: readonly SourceFile[], mostFor: (path: string) => number): string[] =>
  files
    .map((file) => ({ path: file.path, count: importCount(file) - multiLine(file) }))
    .filter(({ path, count }) => count > mostFor(path))
    .map(({ path, count }) => `${path} (${count})`);

const declarations = (files: readonly SourceFile[]) =>
  files.flatMap(({ path, text }) =>
    [
      ...text.matchAll(/^(?:export )?(?:declare )?(?:abstract )?(?:interface|class|enum|type(?= \w+(?: =|<))) (\w+)/gm),
    ].map(([, name = ""]) => ({ name, path })),
  );

/** Type names with more than one declaration; `except` are names that are meant to be local. */
export function repeatedTypes(files: readonly SourceFile[], except: readonly string[]): string[] {
  const byName = Map.groupBy(declarations(files), ({ name }) => name);
  return [...byName]
    .filter(([name, all]) => all.length > 1 && !except.includes(name))
    .map(([name, all]) => `${name}: ${all.map(({ path }) => path).join(", ")}`);
}

export const typesNamed = (files: readonly SourceFile[], names: readonly string[]): string[] =>
  declarations(files)
    .filter(({ name }) => names.includes(name))
    .map(({ name, path }) => `${path}: ${name}`);

/** Lines that match, as `path:line: text`. */
export const linesLike = (files: readonly SourceFile[], pattern: RegExp): string[] =>
  files.flatMap(({ path, lines }) =>
    lines.flatMap((line, i) => (pattern.test(line) ? [`${path}:${i + 1}: ${line.trim().slice(0, 100)}`] : [])),
  );
