import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Each takes more than half a minute, so that one of them begun last would be waited for when all else is done. */
const longest = [
  "faults/webhooks-loss",
  "unit/store/model-postgres",
  "cases/oauth/devices",
  "faults/refresh-replicas",
  "cases/refresh/refresh",
  "cases/process/configuration",
  "cases/webhooks/delivering",
  "unit/store/model",
  "faults/refresh-store",
  "cases/cli/dev",
].map((name) => fileURLToPath(new URL(`../../${name}.test.ts`, import.meta.url)));

/** The longest tests first, on a machine that has never run them, too; then those that Vitest would begin with. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const gone = longest.find((path) => !existsSync(path));
    if (gone !== undefined) throw new Error(`${gone} is to be run first, and is not there`);
    const usual = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => longest.includes(moduleId);
    const first = longest.flatMap((path) => usual.filter(({ moduleId }) => moduleId === path));
    return [...first, ...usual.filter((file) => !isLong(file))];
  }
}
