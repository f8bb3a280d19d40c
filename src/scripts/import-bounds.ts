import { realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";

/**
 * The files that a script may be made of: those of its folder, and those of packages that a bare name leads to, in a
 * `node_modules` of the folder or of one above it. Anything else on the machine is somebody else's.
 */
export interface ImportBounds {
  /** Whether the file may be read for this import. Every link on its path is followed first. */
  admits(asked: ImportedFile): Promise<boolean>;
  /** Admits a package that latchkey brings itself, by one of its files. */
  addPackage(file: string): Promise<void>;
  /** Whether the file was admitted. */
  has(path: string): boolean;
}

export interface ImportedFile {
  /** As it is written: `./a`, `zod/mini`, `#b`. */
  readonly specifier: string;
  readonly importer: string;
  /** The folder that it is looked up from. */
  readonly from: string;
  /** The file that the bundler found. */
  readonly path: string;
}

/** `folder` is without links. */
export function createImportBounds(folder: string): ImportBounds {
  const admitted = new Set<string>();
  /** Folders of packages outside the folder, from which files were admitted. */
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
    // A package's own name for something else: of itself, or of another package.
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
    async admits(asked) {
      const file = await real(asked.path);
      if (file === undefined || !(await isWithin(asked, file))) return false;
      admitted.add(asked.path).add(file);
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

/** The file without links; undefined: there is none. */
const real = (path: string): Promise<string | undefined> => realpath(path).catch(() => undefined);

/** The folder itself, and all above it. */
function above(folder: string): readonly string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...above(parent)];
}

/** `zod` of `zod/mini`, `@scope/name` of `@scope/name/part`; undefined: not the name of a package. */
function packageName(specifier: string): string | undefined {
  if (isAbsolute(specifier) || /[\\%]/.test(specifier)) return undefined;
  const parts = specifier.split("/");
  if (parts.some((part) => part === "." || part === "..")) return undefined;
  const [first = "", second = ""] = parts;
  if (!first.startsWith("@")) return /^[^.@]/.test(first) ? first : undefined;
  return second === "" || second.startsWith(".") ? undefined : `${first}/${second}`;
}

/** Where the nearest package of that name is, without links. */
async function packageFolder(name: string, from: string): Promise<string | undefined> {
  for (const one of above(from)) {
    const found = await real(join(one, "node_modules", name));
    if (found !== undefined) return found;
  }
  return undefined;
}
