import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Each of these takes more than half a minute: if one started last, the whole run would wait for it. */
const longest = [
  "faults/failover/short",
  "cases/dashboard/every-page",
  "faults/webhooks-loss",
  "cases/webhooks/delivering",
  "unit/scripts/containment",
  "cases/cli/scripts",
  "cases/oauth/devices",
  "cases/refresh/refresh",
  "faults/refresh-killed",
  "cases/syncs/scripts",
  "deploy/image",
  "unit/store/postgres/postgres",
  "faults/refresh-replicas",
  "faults/refresh-store",
  "faults/edges/short",
  "cases/cli/dev",
  "unit/scripts/folder",
  "cases/doors/closed-peers",
  "unit/scripts/tools",
  "peers/frontend",
  "cases/refresh/kinds",
  "cases/proxy/lanes",
  "faults/postgres-frozen",
  "cases/store/backup",
  "faults/shared-work",
  "cases/channels/year",
  "cases/channels/lives",
  "cases/channels/automatic",
  "faults/power",
  "cases/grpc/deadlines",
  "cases/doors/h2-fuzz",
  "unit/store/model",
  "unit/store/model-postgres",
  "cases/process/configuration",
  "cases/pages/patterns",
  "faults/postgres-start",
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
