import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../bin/steps.ts";

/** An npm package as it lies in node_modules, where the lock file put it. */
export interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** Of what the registry served, as the lock file has it: `sha512-…`. */
  readonly integrity: string | undefined;
  readonly folder: string;
}

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

interface Locked {
  readonly packages: Readonly<Record<string, { readonly integrity?: string }>>;
}

const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8")) as T;
const lock = () => readJson<Locked>(join(root, "package-lock.json"));

/** The package that lies in this folder, which is named from the checkout: `node_modules/level`. */
export function packageAt(path: string): NpmPackage {
  const { name = "", version = "", license = "NOASSERTION" } = readJson<Manifest>(join(root, path, "package.json"));
  return { name, version, license, integrity: lock().packages[path]?.integrity, folder: join(root, path) };
}

/** A package and all that it needs to run, each once. */
export function closureOf(name: string): NpmPackage[] {
  const paths = new Set<string>();
  const add = (path: string): void => {
    if (paths.has(path)) return;
    paths.add(path);
    const { dependencies = {} } = readJson<Manifest>(join(root, path, "package.json"));
    for (const needed of Object.keys(dependencies)) add(find(needed, path));
  };
  add(find(name, ""));
  return [...paths].map(packageAt);
}

/** As Node looks for it: beside whoever asks, and then further out. */
function find(name: string, from: string): string {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    const path = at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`;
    if (lock().packages[path] !== undefined) return path;
    if (at === "") throw new Error(`${name} is not in package-lock.json`);
  }
}

/** The folders of the packages that these files are of. */
export function packagesOf(files: readonly string[]): NpmPackage[] {
  const paths = files.flatMap((file) => {
    const [path] = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? [];
    return path === undefined ? [] : [path];
  });
  return [...new Set(paths)].sort().map(packageAt);
}

/** Node for the system that this runs on, as npm brings it. */
export function nodePackage(): NpmPackage & { readonly binary: string } {
  const found = packageAt(`node_modules/node-linux-${process.arch}`);
  return { ...found, binary: realpathSync(join(found.folder, "bin/node")) };
}

/** Prebuilt binaries of other systems, which no one would load here. */
export function foreignPrebuilds(folder: string): string[] {
  const prebuilds = join(folder, "prebuilds");
  try {
    return readdirSync(prebuilds)
      .filter((name) => name !== `linux-${process.arch}`)
      .map((name) => join(prebuilds, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
