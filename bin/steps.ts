import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name: string) => join(root, "node_modules", ".bin", name);

/** Runs a tool of node_modules. Returns whether it succeeded; prints its output only if it failed. */
export const tool = (name: string, ...args: readonly string[]): boolean => run(bin(name), args);

/** Runs a script of this folder in a process of its own, so that it imports the newly generated files. */
export const script = (name: string, ...args: readonly string[]): boolean =>
  run(process.execPath, [join(root, "bin", name), ...args]);

function run(command: string, args: readonly string[]): boolean {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  if (status === 0) return true;
  process.stdout.write(`${stdout}${stderr}${error === undefined ? "" : String(error)}`);
  return false;
}
