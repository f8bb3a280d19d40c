import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { temporaryFolder } from "../support/sidecar/harness.ts";

export interface Ran {
  readonly isContent: boolean;
  readonly said: string;
}

/** Runs `promtool` over files that are written for it. */
export async function promtool(words: readonly string[], files: Readonly<Record<string, unknown>>): Promise<Ran> {
  const folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), stringify(content));
  const { status, stdout, stderr } = spawnSync("promtool", words, { cwd: folder, encoding: "utf8" });
  return { isContent: status === 0, said: `${stdout}${stderr}` };
}
