import { type FSWatcher, watch } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ScriptAt, ScriptKind } from "../core/scripts/script.ts";

/** A file that should hold a script. */
export interface ScriptFile extends ScriptAt {
  /** Within the folder. */
  readonly file: string;
}

/** As they stand in the folder; the last is what others call it. */
const kinds: readonly (readonly [folder: string, kind: ScriptKind])[] = [
  ["syncs", "sync"],
  ["actions", "action"],
  ["events", "event"],
  ["on-events", "event"],
];

/** `<integration>/{syncs,actions,events}/<name>.ts`; undefined when there is no such folder. */
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
    // It is not there, or is no folder: of the scripts' own folder that is for its caller to say.
    return undefined;
  }
}

/** Changes when one of the files does, by whatever way: written over, put in its place, or led to by another link. */
export async function stampOf(files: readonly string[]): Promise<string> {
  const marks = await Promise.all(
    files.map(async (file) => {
      try {
        const [{ mtimeMs, size, ino }, real] = await Promise.all([stat(file), realpath(file)]);
        return `${real} ${mtimeMs} ${size} ${ino}`;
      } catch {
        // A file that is gone is a change too.
        return `${file} -`;
      }
    }),
  );
  return marks.join("\n");
}

/** Says that something may have changed: when the system tells of it, and every so often whether it does or not. */
export function watchFolder(folder: string, everyMs: number, changed: () => void): () => void {
  let watcher: FSWatcher | undefined;
  function open(): void {
    if (watcher !== undefined) return;
    try {
      watcher = watch(folder, { recursive: true, persistent: false }, changed);
      // The folder went away, or there are more files than may be watched: looking is left.
      watcher.on("error", () => {
        watcher?.close();
        watcher = undefined;
      });
    } catch {
      // It is not there yet.
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
