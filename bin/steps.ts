import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name: string) => join(root, "node_modules", ".bin", name);

/** Runs a tool of node_modules and returns whether it was content; what it says is shown only when it was not. */
export function tool(name: string, ...args: readonly string[]): boolean {
  const { status, stdout, stderr, error } = spawnSync(bin(name), args, {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  if (status === 0) return true;
  process.stdout.write(`${stdout}${stderr}${error === undefined ? "" : String(error)}`);
  return false;
}
