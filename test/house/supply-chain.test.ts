import { execFileSync, spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { chmod, cp, mkdir, writeFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { expect, it } from "vitest";
import { build, external } from "../../bin/build.ts";
import { root } from "../../bin/steps.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));

const versionOf = (text: string): readonly number[] => text.match(/\d+/g)?.slice(0, 2).map(Number) ?? [];

/** A checkout with nothing but the files that run programs, and a required Node version that this machine lacks. */
async function checkout(brought: string) {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "bin"));
  await cp(join(root, "bin/run.mjs"), join(folder, "bin/run.mjs"));
  await writeFile(join(folder, "package.json"), JSON.stringify({ engines: { node: ">=99.12" } }));
  await writeFile(join(folder, "package-lock.json"), "{}");
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const bin = join(folder, "node_modules", name, "bin");
  await mkdir(bin, { recursive: true });
  const stamp = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
  await writeFile(join(folder, "node_modules/.installed"), stamp);
  await writeFile(join(folder, "node_modules", name, "package.json"), JSON.stringify({ name, version: brought }));
  await writeFile(join(bin, "node"), "#!/bin/sh\necho brought\n");
  await chmod(join(bin, "node"), 0o755);
  return spawnSync(process.execPath, [join(folder, "bin/run.mjs"), "x.ts"], { encoding: "utf8" });
}

it("runs under a Node that `engines` accepts, or reports that there is none", async () => {
  for (const brought of ["98.99.0", "99.0.0", "99.11.9"]) {
    const { status, stderr } = await checkout(brought);
    expect([brought, status]).toEqual([brought, 1]);
    expect(stderr).toMatch(/needs Node 99\.12 or later/);
  }
  for (const brought of ["99.12.0", "99.13.1", "100.0.0"]) {
    expect((await checkout(brought)).stdout).toBe("brought\n");
  }
});

it("brings no Node that `engines` does not accept", () => {
  const [major = 0, minor = 0] = versionOf(manifest.engines.node);
  const brought = Object.entries<string>(manifest.optionalDependencies).filter(([name]) => /^node-/.test(name));
  expect(brought.length).toBeGreaterThanOrEqual(5);
  for (const [name, version] of brought) {
    const [a = 0, b = 0] = versionOf(version);
    expect(a > major || (a === major && b >= minor), `${name} ${version}`).toBe(true);
    expect(lock.packages[`node_modules/${name}`].version).toBe(version);
  }
});

it("names the imported packages as dependencies", () => {
  const imported = new Set<string>();
  for (const file of globSync("src/**/*.ts", { cwd: root })) {
    const text = readFileSync(join(root, file), "utf8");
    for (const [, name = ""] of text.matchAll(/^(?:import|export) (?!type )[^;]*?from "([^".][^"]*)";$/gms)) {
      imported.add(
        name
          .split("/")
          .slice(0, name.startsWith("@") ? 2 : 1)
          .join("/"),
      );
    }
  }
  const packages = [...imported].filter((name) => !name.startsWith("node:") && !builtinModules.includes(name));
  expect(packages).toContain("ws");
  expect(packages.filter((name) => !(name in manifest.dependencies))).toEqual(
    packages.filter((name) => name === "latchkey"),
  );
});

it("builds a package that pins all that it brings", async () => {
  const dist = join(await temporaryFolder(), "dist");
  await build(dist);
  const shrinkwrap = JSON.parse(readFileSync(join(dist, "npm-shrinkwrap.json"), "utf8"));
  const pinned = Object.entries<Record<string, unknown>>(shrinkwrap.packages).filter(([path]) => path !== "");
  for (const name of external) expect(shrinkwrap.packages).toHaveProperty([`node_modules/${name}`]);
  for (const [path, entry] of pinned) {
    expect(entry, path).toMatchObject({
      version: lock.packages[path].version,
      integrity: lock.packages[path].integrity,
    });
    expect(entry, path).not.toHaveProperty("dev");
  }
  // Includes transitive packages, and excludes those that only the checkout needs.
  expect(shrinkwrap.packages).toHaveProperty(["node_modules/classic-level"]);
  expect(pinned.map(([path]) => path)).not.toContain("node_modules/vitest");
  // npm refuses a shrinkwrap that does not fit the manifest. It asks no registry for that.
  const env = { ...process.env, npm_config_offline: "true" };
  execFileSync("npm", ["ci", "--dry-run", "--ignore-scripts", "--no-audit"], { cwd: dist, env, stdio: "pipe" });
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: dist, env, encoding: "utf8" }),
  );
  expect(packed.files.map(({ path }: { readonly path: string }) => path)).toContain("npm-shrinkwrap.json");
});
