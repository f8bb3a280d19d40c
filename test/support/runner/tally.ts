import type { Reporter, TestModule } from "vitest/node";

/** Closes a run with one line that machines read: `12 passed, 0 failed, 3 skipped`. */
export default class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
    const count = (wanted: string) => states.filter((state) => state === wanted).length;
    // A file that could not be loaded has no tests to fail.
    const broken = modules.filter(
      (module) => module.state() === "failed" && [...module.children.allTests("failed")].length === 0,
    );
    const failed = count("failed") + broken.length + unhandled.length;
    process.stdout.write(`\n${count("passed")} passed, ${failed} failed, ${count("skipped")} skipped\n`);
  }
}
