import { realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";

/**
 * The files that a script may import: those of its folder, and those of packages found by name in a `node_modules` of
 * the folder or one above it. Any other file of the machine is refused.
 */
export interface ImportBounds {
  /** Reports whether the file may be read for this import. Resolves all links of its path first. */
  admits(asked: ImportedFile): Promise<boolean>;
  /** Admits one of Latchkey's own packages, given any of its files. */
  addPackage(file: string): Promise<void>;
  /** Reports whether the file was admitted. */
  has(path: string): boolean;
}

export interface ImportedFile {
  /** The import as written: `./a`, `zod/mini`, `#b`. */
  readonly specifier: string;
  readonly importer: string;
  /** The folder where the lookup starts. */
  readonly from: string;
  /** The file that the bundler found. */
  readonly path: string;
}

/** `folder` must have its links resolved. */
export function createImportBounds(folder: string): ImportBounds {
  const admitted = new Set<string>();
  /** Packages outside the folder from which files were admitted. */
  const packages = new Set<string>();
  let roots: Promise<readonly string[]> | undefined;
  const realRoots = () => {
    roots ??= Promise.all(above(folder).map((one) => real(join(one, "node_modules")))).then((found) =>
      found.filter((one) => one !== undefined),
    );
    return roots;
  };

  async function isWithin({ specifier, importer, from }: ImportedFile, file: string): Promise<boolean> {
    if (isInside(folder, file)) return true;
    const own = await real(importer);
    const importing = [...packages].find((one) => own !== undefined && isInside(one, own));
    if (importing !== undefined && isInside(importing, file)) return true;
    // A package's subpath import: for a file of its own, or of another package.
    if (specifier.startsWith("#")) return (await realRoots()).some((root) => isInside(root, file));
    const name = packageName(specifier);
    if (name === undefined) return false;
    const found = await packageFolder(name, from);
    if (found === undefined || !isInside(found, file)) return false;
    // A link in a `node_modules` may lead anywhere.
    const isOfRoot = packages.has(found) || [folder, ...(await realRoots())].some((root) => isInside(root, found));
    if (isOfRoot) packages.add(found);
    return isOfRoot;
  }

  return {
    async admits(imported) {
      const file = await real(imported.path);
      if (file === undefined || !(await isWithin(imported, file))) return false;
      admitted.add(imported.path).add(file);
      return true;
    },
    async addPackage(file) {
      const parts = file.split(sep);
      const found = await real(parts.slice(0, parts.lastIndexOf("node_modules") + 2).join(sep));
      if (found !== undefined) packages.add(found);
    },
    has: (path) => admitted.has(path),
  };
}

export const isInside = (folder: string, path: string): boolean => path.startsWith(folder + sep);

/** Returns the path with links resolved; undefined if it does not exist. */
const real = (path: string): Promise<string | undefined> => realpath(path).catch(() => undefined);

/** Returns the folder and all its parents. */
function above(folder: string): readonly string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...above(parent)];
}

/**
 * Returns `zod` for `zod/mini`, `@scope/name` for `@scope/name/part`; undefined if the specifier is not a package name.
 */
function packageName(specifier: string): string | undefined {
  if (isAbsolute(specifier) || /[\\%]/.test(specifier)) return undefined;
  const parts = specifier.split("/");
  if (parts.some((part) => part === "." || part === "..")) return undefined;
  const [first = "", second = ""] = parts;
  if (!first.startsWith("@")) return /^[^.@]/.test(first) ? first : undefined;
  return second === "" || second.startsWith(".") ? undefined : `${first}/${second}`;
}

/** Finds the nearest package of that name, with links resolved. */
async function packageFolder(name: string, from: string): Promise<string | undefined> {
  for (const one of above(from)) {
    const found = await real(join(one, "node_modules", name));
    if (found !== undefined) return found;
  }
  return undefined;
}
