import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Each of these takes more than half a minute: if one started last, the whole run would wait for it. */
const longest = [
  "faults/webhooks-loss",
  "cases/doors/h2-fuzz",
  "faults/power",
  "faults/refresh-store",
  "cases/channels/year",
  "faults/refresh-replicas",
  "cases/cli/dev",
  "cases/syncs/scripts",
  "cases/oauth/devices",
  "cases/refresh/refresh",
  "unit/scripts/containment",
  "cases/process/configuration",
  "cases/webhooks/delivering",
  "unit/store/model-postgres",
  "faults/refresh-killed",
  "cases/doors/closed-peers",
  "peers/frontend",
  "cases/proxy/lanes",
  "faults/shared-work",
  "faults/postgres-frozen",
  "faults/postgres-start",
  "cases/cli/scripts",
  "unit/store/model",
  "cases/dashboard/every-page",
  "faults/failover/short",
  "faults/edges/short",
  "unit/scripts/folder",
  "unit/scripts/tools",
  "cases/pages/patterns",
].map((name) => fileURLToPath(new URL(`../../${name}.test.ts`, import.meta.url)));

/** Runs the longest tests first, also on a machine without timings; then the others in Vitest's order. */
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
