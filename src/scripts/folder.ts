import { type FSWatcher, watch } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ScriptKind, ScriptLocation } from "../core/scripts/script.ts";

/** A file that should contain a script. */
export interface ScriptFile extends ScriptLocation {
  /** Path within the folder. */
  readonly file: string;
}

/** Folder names and their kinds; the last is Nango's name for events. */
const kinds: readonly (readonly [folder: string, kind: ScriptKind])[] = [
  ["syncs", "sync"],
  ["actions", "action"],
  ["events", "event"],
  ["on-events", "event"],
];

/** Lists `<integration>/{syncs,actions,events}/<name>.ts`; undefined if the folder does not exist. */
export async function listScripts(folder: string): Promise<readonly ScriptFile[] | undefined> {
  const integrations = await names(folder);
  if (integrations === undefined) return undefined;
  const found: ScriptFile[] = [];
  for (const integration of integrations.filter((name) => !name.startsWith(".") && name !== "node_modules")) {
    for (const [place, kind] of kinds) {
      for (const file of (await names(join(folder, integration, place))) ?? []) {
        const [, name] = /^([\w-]+)\.ts$/.exec(file) ?? [];
        if (name !== undefined) found.push({ integration, kind, name, file: join(integration, place, file) });
      }
    }
  }
  return found;
}

async function names(folder: string): Promise<readonly string[] | undefined> {
  try {
    return (await readdir(folder)).sort();
  } catch {
    // Missing or not a folder. For the scripts folder itself, the caller reports that.
    return undefined;
  }
}

/** Returns a stamp that changes when a file does: overwritten, replaced, or reached by another link. */
export async function stampOf(files: readonly string[]): Promise<string> {
  const marks = await Promise.all(
    files.map(async (file) => {
      try {
        const [{ mtimeMs, size, ino }, real] = await Promise.all([stat(file), realpath(file)]);
        return `${real} ${mtimeMs} ${size} ${ino}`;
      } catch {
        // A deleted file is a change, too.
        return `${file} -`;
      }
    }),
  );
  return marks.join("\n");
}

/** Reports possible changes: on events of the file system, and at regular intervals in any case. */
export function watchFolder(folder: string, everyMs: number, changed: () => void): () => void {
  let watcher: FSWatcher | undefined;
  function open(): void {
    if (watcher !== undefined) return;
    try {
      watcher = watch(folder, { recursive: true, persistent: false }, changed);
      // The folder was removed, or has more files than can be watched: only the interval remains.
      watcher.on("error", () => {
        watcher?.close();
        watcher = undefined;
      });
    } catch {
      // The folder does not exist yet.
      watcher = undefined;
    }
  }
  open();
  const timer = setInterval(() => {
    open();
    changed();
  }, everyMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}
