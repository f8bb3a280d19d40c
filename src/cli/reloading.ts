import { readFileSync, statSync } from "node:fs";
import type { Changeable } from "../config/config.ts";
import type { FileReader } from "../config/secrets.ts";
import type { Process } from "./process.ts";

export const files: FileReader = {
  read: (path) => ({ text: readFileSync(path, "utf8"), mode: statSync(path).mode }),
};

/** Keeps a sidecar in step with its configuration file, and with the files of secrets that this names. */
export interface Reloading {
  /** Now, whether anything has changed or not. */
  reload(): void;
  end(): void;
}

interface ReloadingOptions {
  readonly process: Pick<Process, "watchFile">;
  readonly read: (files: FileReader) => Changeable;
  readonly apply: (read: () => Changeable) => Promise<void>;
  /** The configuration file itself. */
  readonly first: string;
}

export function createReloading({ process, read, apply, first }: ReloadingOptions): Reloading {
  const watched = new Map<string, () => void>();
  let isRunning = false;
  let isAsked = false;

  /** What a file that was refused names is watched too: it may be what is to be mended. */
  function watch(paths: Iterable<string>): void {
    for (const path of paths) {
      if (!watched.has(path)) watched.set(path, process.watchFile(path, reload));
    }
  }

  function readAndWatch(): Changeable {
    const paths = new Set<string>();
    const recording: FileReader = {
      read(path) {
        paths.add(path);
        return files.read(path);
      },
    };
    try {
      return read(recording);
    } finally {
      watch(paths);
    }
  }

  function reload(): void {
    isAsked = true;
    if (!isRunning) void untilNothingIsAsked();
  }

  /** One after another: files of one folder change together, and the last reading is the one that counts. */
  async function untilNothingIsAsked(): Promise<void> {
    isRunning = true;
    while (isAsked) {
      isAsked = false;
      await apply(readAndWatch);
    }
    isRunning = false;
  }

  watch([first]);
  try {
    readAndWatch();
  } catch {
    // It was good a moment ago: whatever changed it since is noticed by the look at the file.
  }
  return {
    reload,
    end() {
      for (const unwatch of watched.values()) unwatch();
      watched.clear();
    },
  };
}
