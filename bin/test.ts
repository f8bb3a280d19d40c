/**
 * `npm test [-- ARGS]`: everything, or what Vitest's arguments choose. `npm run test:quick`: the part that finds most
 * within a minute. `npm run test:changed [-- BASE]`: what concerns the files that differ from BASE (`main` unless said).
 */
import { spawn, spawnSync } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { compileCache } from "../test/support/runner/compile-cache.ts";
import { testPrograms } from "../test/support/runner/program.ts";
import { changedFiles, testsFor } from "./changed-tests.ts";
import { root } from "./steps.ts";

/** The project "crowd" repeats the proxy's tests in batch mode; continuous integration runs it as well. */
const everything = ["--project", "apart", "--project", "shared", "--project", "general lane"];
/** Runs each of a few files alone in its process. */
const someFiles = ["--project", "all", "--project", "general lane"];

function argumentsFor([first, ...rest]: readonly string[]): readonly string[] | undefined {
  if (first === "--quick") return ["--project", "quick", ...rest];
  if (first === "--changed") return changedArguments(rest[0] ?? "main");
  if (first === undefined) return everything;
  const args = [first, ...rest];
  return args.some((arg) => arg.startsWith("--project")) ? args : [...someFiles, ...args];
}

/**
 * Prepares a run of everything, which starts some thousand processes: builds the program that most of them run, with
 * those whose clock or leases a test sets, and compiles the source for the others that are killed: these leave no
 * compiled code.
 */
async function startFaster(): Promise<Readonly<Record<string, string>>> {
  const { build } = await import("./build.ts");
  const dist = join(root, "node_modules/.cache/latchkey-program");
  await build(dist, testPrograms);
  spawnSync(process.execPath, ["--input-type=module", "-e", 'await import("./src/sidecar.ts")'], {
    cwd: root,
    env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
  });
  return { LATCHKEY_TEST_PROGRAM: join(dist, "latchkey.js") };
}

function changedArguments(base: string): readonly string[] | undefined {
  const files = changedFiles(base);
  const { tests, unknown } = testsFor(files);
  process.stdout.write(
    `${files.length} files differ from ${base}; tests of these:\n${tests.map((path) => `  ${path}\n`).join("")}`,
  );
  if (unknown.length > 0)
    process.stdout.write(
      `no test is known for these; npm test runs everything:\n${unknown.map((path) => `  ${path}\n`).join("")}`,
    );
  return tests.length === 0 ? undefined : ["--project", "all", ...tests];
}

const args = argumentsFor(process.argv.slice(2));
if (args !== undefined) {
  const faster = args.includes("apart") ? await startFaster() : {};
  const vitest = spawn(process.execPath, [join(root, "node_modules/vitest/vitest.mjs"), "run", ...args], {
    cwd: root,
    env: { ...process.env, ...faster },
    stdio: "inherit",
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => vitest.kill(signal));
  vitest.on("exit", (code, signal) => {
    process.exitCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
  });
}
