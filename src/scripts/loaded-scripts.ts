import { realpath } from "node:fs/promises";
import { createLimiter } from "../base/limiter.ts";
import type { World } from "../base/world.ts";
import type { BrokenScript, Script, ScriptEndpoint, ScriptLocation } from "../core/scripts/script.ts";
import type { BundleScript } from "./bundle.ts";
import { listScripts, type ScriptFile, stampOf } from "./folder.ts";
import { type FolderEntry, loadScript, type ReadyScript, settleEndpoints } from "./load-script.ts";
import type { Threads } from "./threads.ts";

/** The scripts of the folder, as they were last loaded. */
export interface LoadedScripts {
  all(): readonly Script[];
  broken(): readonly BrokenScript[];
  find(at: ScriptLocation): ReadyScript | undefined;
  /** Returns the code of a script, which a caller may still hold after the script was replaced. */
  codeOf(script: Script): ReadyScript | undefined;
  /** Loads the files that have changed. */
  reload(): Promise<void>;
  /** Results of a running `reload` are dropped. */
  close(): void;
}

interface LoadedScriptsOptions {
  readonly folder: string;
  readonly prelude: string;
  readonly threads: Pick<Threads, "describe">;
  readonly bundleScript: BundleScript;
  /** Reports whether a path of the data port is one of Latchkey's own routes. */
  readonly isOwnPath: (endpoint: ScriptEndpoint) => boolean;
  readonly onChanged: () => void;
  /** No script of the folder has this version any more. */
  readonly onForgotten: (version: string) => void;
  readonly world: Pick<World, "log">;
}

/** Maximum number of files loaded concurrently. */
const loadedAtOnce = 4;

export function createLoadedScripts(options: LoadedScriptsOptions): LoadedScripts {
  const { folder, prelude, threads, bundleScript, isOwnPath, onChanged, onForgotten, world } = options;
  const limiter = createLimiter(loadedAtOnce);
  /** Keeps the code of a script that a caller still holds, even after it was replaced. */
  const handedOut = new WeakMap<Script, ReadyScript>();
  let entries = new Map<string, FolderEntry>();
  let good: readonly Script[] = [];
  let broken: readonly BrokenScript[] = [];
  let isClosed = false;

  async function loadIfChanged(real: string, file: ScriptFile): Promise<FolderEntry> {
    const before = entries.get(keyOf(file));
    if (before !== undefined && (await stampOf(before.inputs)) === before.stamp) return before;
    const done = await limiter("load");
    try {
      return await loadScript(file, before, { folder: real, prelude, threads, bundleScript });
    } finally {
      done();
    }
  }

  function accept(next: Map<string, FolderEntry>): void {
    const before = entries;
    entries = next;
    const all = [...next.values()];
    for (const { ready } of all) if (ready !== undefined) handedOut.set(ready.script, ready);
    const versions = new Set(all.flatMap(versionsIn));
    for (const version of new Set([...before.values()].flatMap(versionsIn))) {
      if (!versions.has(version)) onForgotten(version);
    }
    good = all.flatMap(({ ready }) => (ready === undefined ? [] : [ready.script]));
    broken = all.flatMap((entry) => (entry.broken === undefined ? [] : [entry.broken]));
    if (isSameOutcome(before, all)) return;
    for (const { file, mistakes } of broken) {
      for (const mistake of mistakes) world.log.warn("a script was not loaded", { script: file, ...mistake });
    }
    world.log.info("scripts loaded", { scripts: good.length, broken: broken.length });
    onChanged();
  }

  return {
    all: () => good,
    broken: () => broken,
    find: (at) => entries.get(keyOf(at))?.ready,
    codeOf: (script) => handedOut.get(script),
    async reload() {
      const real = await realpath(folder).catch(() => undefined);
      const files = real === undefined ? undefined : await listScripts(real);
      if (real === undefined || files === undefined) {
        // Missing briefly or for good: the loaded scripts stay.
        world.log.warn("could not read the scripts folder; keeping the loaded scripts", { folder });
        return;
      }
      const before = entries;
      const loaded = await Promise.all(files.map((file) => loadIfChanged(real, file)));
      if (isClosed) return;
      const isSame = loaded.length === before.size && loaded.every((entry) => before.get(keyOf(entry.file)) === entry);
      if (isSame) return;
      const settled = await settleEndpoints(loaded, before, keyOf, isOwnPath, real);
      accept(new Map(settled.map((entry) => [keyOf(entry.file), entry])));
    },
    close() {
      isClosed = true;
    },
  };
}

/** Versions of the script and its base that threads may have loaded. */
const versionsIn = ({ ready }: FolderEntry): readonly string[] =>
  ready === undefined
    ? []
    : [ready.script.version, ...(ready.bundle.base === undefined ? [] : [ready.bundle.base.version])];

const keyOf = ({ integration, kind, name }: ScriptLocation) => `${integration}/${kind}/${name}`;

/** Whether the scripts and mistakes are those of before: a touched file changes neither. */
const isSameOutcome = (before: ReadonlyMap<string, FolderEntry>, all: readonly FolderEntry[]): boolean =>
  all.length === before.size &&
  all.every((entry) => {
    const old = before.get(keyOf(entry.file));
    return (
      old !== undefined &&
      entry.ready?.script.version === old.ready?.script.version &&
      JSON.stringify(entry.broken) === JSON.stringify(old.broken)
    );
  });
