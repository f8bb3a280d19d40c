/** Which tests concern which files of the source. Used by `npm run test:changed`. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./steps.ts";

/** Tests through the doors, by what they exercise. A file belongs to every row whose prefix it has. */
const casesOf: readonly (readonly [prefix: string, tests: readonly string[]])[] = [
  ["src/auth", ["test/cases/proxy", "test/cases/oauth", "test/cases/refresh"]],
  ["src/base/http", ["test/cases/doors"]],
  ["src/base/metrics", ["test/deploy/monitoring.test.ts"]],
  ["src/broker/audit", ["test/cases/control-plane"]],
  ["src/broker/channels", ["test/cases/channels"]],
  ["src/broker/connect", ["test/cases/oauth", "test/cases/import", "test/cases/pages"]],
  ["src/broker/connections", ["test/cases/control-plane", "test/cases/rest", "test/cases/webhooks"]],
  ["src/broker/credentials", ["test/cases/refresh", "test/cases/credentials"]],
  ["src/broker/deliveries", ["test/cases/webhooks"]],
  ["src/broker/records", ["test/cases/records", "test/cases/syncs"]],
  ["src/broker/setup", ["test/cases/control-plane", "test/cases/rest"]],
  ["src/broker/syncs", ["test/cases/syncs"]],
  ["src/broker/tokens", ["test/cases/oauth", "test/cases/refresh"]],
  ["src/broker/webhooks", ["test/cases/webhooks"]],
  ["src/cli", ["test/cases/cli"]],
  ["src/config", ["test/cases/process"]],
  ["src/control-plane", ["test/cases/control-plane", "test/peers/grpc-js.test.ts"]],
  ["src/core/dialect", ["test/cases/rest", "test/cases/import"]],
  ["src/core/notifications", ["test/cases/webhooks"]],
  ["src/core/outgoing", ["test/cases/proxy"]],
  ["src/core/scripts", ["test/cases/syncs"]],
  ["src/data-plane/api", ["test/cases/rest"]],
  ["src/data-plane/fast-path", ["test/cases/proxy", "test/cases/webhooks/door.test.ts"]],
  ["src/data-plane/pages", ["test/cases/pages"]],
  ["src/data-plane/proxy", ["test/cases/proxy"]],
  ["src/data-plane/server", ["test/cases/doors", "test/cases/proxy"]],
  ["src/dev", ["test/cases/sandbox", "test/cases/cli/dev.test.ts"]],
  ["src/providers", ["test/cases/control-plane"]],
  ["src/relay", ["test/cases/proxy", "test/cases/grpc"]],
  ["src/scripts", ["test/cases/syncs"]],
  ["src/sidecar", ["test/cases/process", "test/house/smoke.test.ts"]],
  ["src/store", ["test/cases/store"]],
  ["deploy", ["test/deploy"]],
  ["bin", ["test/house"]],
];
/** Held by every change of the source. */
const always = ["test/house/floors.test.ts", "test/house/limits.test.ts"];

export function changedFiles(base: string): string[] {
  const since = git("merge-base", base, "HEAD").trim();
  const tracked = git("diff", "--name-only", since).split("\n");
  const fresh = git("ls-files", "--others", "--exclude-standard").split("\n");
  return [...new Set([...tracked, ...fresh])].filter((path) => path !== "");
}

export interface ChosenTests {
  readonly tests: readonly string[];
  /** Files of which no row says what exercises them. */
  readonly unknown: readonly string[];
}

export function testsFor(files: readonly string[]): ChosenTests {
  const tests = new Set<string>();
  const unknown: string[] = [];
  for (const file of files) {
    const found = file.endsWith(".test.ts") ? [file] : [...unitTestsOf(file), ...casesFor(file)];
    for (const test of found) if (existsSync(join(root, test))) tests.add(test);
    if (found.length === 0 && /^(?:src|test|bin|deploy)\//.test(file)) unknown.push(file);
  }
  if (files.some((file) => file.startsWith("src/"))) for (const test of always) tests.add(test);
  return { tests: [...tests].toSorted(), unknown };
}

const casesFor = (file: string) => casesOf.filter(([prefix]) => file.startsWith(prefix)).flatMap(([, tests]) => tests);

/** The unit tests of its room: `src/relay/http1/chunked.ts` has those of `test/unit/relay/http1`. */
function unitTestsOf(file: string): string[] {
  if (!file.startsWith("src/")) return [];
  const folder = join("test/unit", dirname(file.slice("src/".length)));
  return folder !== "test/unit" && existsSync(join(root, folder)) ? [folder] : [];
}

function git(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync("git", args, { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`git ${args.join(" ")}: ${stderr.trim()}`);
  return stdout;
}
