/** Everything that must hold of a change beside its tests. Continuous integration runs exactly this. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { documentNames } from "./document-names.ts";
import { generate } from "./generate.ts";
import { root, tool } from "./steps.ts";

/** Generated afresh elsewhere, so that checking changes nothing. */
function generatedIsCurrent(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-generated-"));
  try {
    for (const place of ["src/config", "src/providers"]) mkdirSync(join(folder, place), { recursive: true });
    if (!generate(folder)) return false;
    const places = [
      ...["src/gen", "src/config/file.schema.json"],
      ...["src/providers/catalogue.json", "src/providers/provider.schema.json"],
      "docs/rpc",
      ...documentNames.map((name) => `docs/${name}`),
    ];
    const stale = places.flatMap((place) => differences(join(folder, place), join(root, place)));
    for (const path of stale) process.stdout.write(`${path} is not what is generated; run npm run generate\n`);
    return stale.length === 0;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function differences(fresh: string, committed: string): string[] {
  const of = (path: string) =>
    /\.(?:json|md)$/.test(path) ? [""] : readdirSync(path, { recursive: true, encoding: "utf8" });
  const files = (path: string) => of(path).filter((name) => name === "" || /\.(?:ts|md)$/.test(name));
  const all = new Set([...files(fresh), ...files(committed)]);
  return [...all]
    .filter((name) => read(join(fresh, name)) !== read(join(committed, name)))
    .map((name) => join(committed, name));
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    /* A file that is only on one side differs from none. */
    return undefined;
  }
}

/**
 * Against the description as it was last released: an image of all modules, compared with an image of all modules.
 * What is stored is on no wire, so that a message which nothing here reads any more is missed by nobody.
 */
function breaksNobody(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-image-"));
  const image = join(folder, "now.binpb");
  const breaking = { use: ["FILE"], ignore_only: { MESSAGE_NO_DELETE: ["latchkey/stored"] } };
  const rules = JSON.stringify({ version: "v2", breaking });
  const held =
    tool("buf", "build", "-o", image) &&
    tool("buf", "breaking", image, "--against", "proto/baseline.binpb", "--config", rules);
  rmSync(folder, { recursive: true });
  return held;
}

/** Commits before this rule have longer subjects. */
const subjectsSince = "2026-11-23T16:00:00Z";
const longestSubject = 72;

function commitSubjectsAreShort(): boolean {
  const { status, stdout } = spawnSync("git", ["log", `--since=${subjectsSince}`, "--no-merges", "--format=%h %s"], {
    cwd: root,
    encoding: "utf8",
  });
  // Without git or its history (a package of the sources) there are no commits to check.
  if (status !== 0) return true;
  const long = stdout.split("\n").filter((line) => line.slice(line.indexOf(" ") + 1).length > longestSubject);
  for (const line of long) process.stdout.write(`subject of over ${longestSubject} characters: ${line}\n`);
  return long.length === 0;
}

const steps: readonly (readonly [string, () => boolean])[] = [
  ["types", () => tool("tsc", "--noEmit")],
  ["types of the dashboard", () => tool("tsc", "--noEmit", "-p", "src/dashboard")],
  ["lint and format", () => tool("biome", "ci", "--error-on-warnings", "--colors=off")],
  ["proto lint", () => tool("buf", "lint")],
  ["proto format", () => tool("buf", "format", "--diff", "--exit-code", "--path", "proto/latchkey")],
  ["proto breaks nobody", breaksNobody],
  ["generated code is current", generatedIsCurrent],
  [
    "floors and limits",
    () => tool("vitest", "run", "--project", "all", "test/house/floors.test.ts", "test/house/limits.test.ts"),
  ],
  ["commit subjects", commitSubjectsAreShort],
];

let failed = 0;
for (const [name, holds] of steps) {
  const since = performance.now();
  const held = holds();
  if (!held) failed += 1;
  process.stdout.write(`${held ? "ok  " : "FAIL"} ${name} (${((performance.now() - since) / 1_000).toFixed(1)} s)\n`);
}
process.exitCode = failed === 0 ? 0 : 1;
