import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { build } from "../bin/build.ts";
import { root } from "../bin/steps.ts";
import { temporaryFolder, testVariables } from "./harness.ts";

it("builds a package that runs without the checkout", async () => {
  const folder = await temporaryFolder();
  const dist = join(folder, "dist");
  await build(dist);
  // What `npm install` would put there.
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  const main = join(dist, "latchkey.js");
  expect(JSON.parse(execFileSync(process.execPath, [main, "config", "schema"], { encoding: "utf8" }))).toHaveProperty(
    "properties.environments",
  );

  const child = spawn(process.execPath, [main, "serve"], { env: { ...testVariables(join(folder, "data")) } });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout.on("data", (chunk) => {
    said += chunk;
  });
  await expect.poll(() => said, { timeout: 10_000 }).toContain('"phase":"ready"');
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
