/**
 * `npm test [-- ARGS]`: everything, or what Vitest's arguments choose. `npm run test:quick`: the part that finds most
 * within a minute. `npm run test:changed [-- BASE]`: what concerns the files that differ from BASE (`main` unless said).
 */
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { changedFiles, testsFor } from "./changed-tests.ts";
import { root } from "./steps.ts";

/** The third project, "crowd", repeats the proxy's tests in batch mode; continuous integration runs it as well. */
const everything = ["--project", "all", "--project", "general lane"];

function argumentsFor([first, ...rest]: readonly string[]): readonly string[] | undefined {
  if (first === "--quick") return ["--project", "quick", ...rest];
  if (first === "--changed") return changedArguments(rest[0] ?? "main");
  const args = first === undefined ? [] : [first, ...rest];
  return args.some((arg) => arg.startsWith("--project")) ? args : [...everything, ...args];
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
  const vitest = spawn(process.execPath, [join(root, "node_modules/vitest/vitest.mjs"), "run", ...args], {
    cwd: root,
    stdio: "inherit",
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => vitest.kill(signal));
  vitest.on("exit", (code, signal) => {
    process.exitCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
  });
}
