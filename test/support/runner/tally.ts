import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

/**
 * Closes a run with the failures, each with the command that repeats it, and with one line that machines read:
 * `12 passed, 0 failed, 3 skipped`.
 */
export default class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
    const count = (wanted: string) => states.filter((state) => state === wanted).length;
    const failures = modules.flatMap(failuresOf);
    const failed = failures.length + unhandled.length;
    if (failures.length > 0) process.stdout.write(`\nFailed, with the command that repeats it:\n${failures.join("")}`);
    process.stdout.write(`\n${count("passed")} passed, ${failed} failed, ${count("skipped")} skipped\n`);
  }
}

function failuresOf(module: TestModule): string[] {
  const file = relative(process.cwd(), module.moduleId);
  const repeat = (name?: string) =>
    `    npm test -- --project ${quoted(module.project.name)} ${file}${name === undefined ? "" : ` -t ${quoted(pattern(name))}`}\n`;
  const failed = [...module.children.allTests("failed")];
  if (failed.length > 0) {
    return failed.map((test) => `  ${file} > ${test.fullName}\n${repeat(test.fullName.replaceAll(" > ", " "))}`);
  }
  // A file that could not be loaded has no tests to fail.
  return module.state() === "failed" ? [`  ${file} (the file itself failed)\n${repeat()}`] : [];
}

/** For the shell. */
const quoted = (text: string) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
/** `-t` takes a regular expression. */
const pattern = (name: string) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
