/** Makes the package's `npm-shrinkwrap.json`: the part of the checkout's lock that the package's dependencies need. */

interface Locked {
  readonly version?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

export interface Lock {
  readonly lockfileVersion: number;
  readonly packages: Readonly<Record<string, Locked>>;
}

interface Manifest {
  readonly name: unknown;
  readonly version: unknown;
  readonly dependencies: Readonly<Record<string, string | undefined>>;
}

/** Pins every package by version and checksum, so that users install what was tested. */
export function shrinkwrapOf(lock: Lock, manifest: Manifest): object {
  const taken = new Map<string, Locked>();

  /** Resolves a package as Node does: from the folder of its importer upwards. */
  function pathOf(name: string, from: string): string | undefined {
    for (let at = from; ; ) {
      const path = `${at === "" ? "" : `${at}/`}node_modules/${name}`;
      if (path in lock.packages) return path;
      if (at === "") return undefined;
      const cut = at.lastIndexOf("/node_modules/");
      at = cut === -1 ? "" : at.slice(0, cut);
    }
  }

  function take(name: string, from: string, isOptional: boolean): void {
    const path = pathOf(name, from);
    const found = path === undefined ? undefined : lock.packages[path];
    if (path === undefined || found === undefined) {
      if (isOptional) return;
      throw new Error(`package-lock.json does not name ${name}, but ${from || "the package"} needs it`);
    }
    if (taken.has(path)) return;
    // A development dependency of the checkout may be a runtime dependency of the package.
    const { dev: _dev, devOptional: _devOptional, ...entry } = found;
    taken.set(path, entry);
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = entry;
    for (const dependency of Object.keys(dependencies)) take(dependency, path, false);
    for (const dependency of Object.keys(optionalDependencies)) take(dependency, path, true);
    for (const dependency of Object.keys(peerDependencies)) {
      if (peerDependenciesMeta[dependency]?.optional !== true) take(dependency, path, false);
    }
  }

  for (const name of Object.keys(manifest.dependencies)) take(name, "", false);
  const packages = Object.fromEntries([...taken].sort(([a], [b]) => (a < b ? -1 : 1)));
  const { name, version } = manifest;
  return {
    name,
    version,
    lockfileVersion: lock.lockfileVersion,
    requires: true,
    packages: { "": manifest, ...packages },
  };
}
