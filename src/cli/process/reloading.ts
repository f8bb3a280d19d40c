import { readFileSync, statSync } from "node:fs";
import type { Changeable } from "../../config/config.ts";
import type { FileReader } from "../../config/secrets.ts";
import type { Process } from "./process.ts";

/** Reads files, and remembers their contents. */
export interface RememberingReader extends FileReader {
  readonly texts: ReadonlyMap<string, string>;
}

export function createReader(before: (path: string) => void = () => {}): RememberingReader {
  const texts = new Map<string, string>();
  return {
    texts,
    read(path) {
      before(path);
      const text = readFileSync(path, "utf8");
      texts.set(path, text);
      return { text, mode: statSync(path).mode };
    },
  };
}

/** Keeps a sidecar in sync with its configuration file, and with the secret files that it names. */
export interface Reloading {
  /** Reloads now, even if nothing has changed. */
  reload(): void;
  end(): void;
}

interface ReloadingOptions {
  readonly process: Pick<Process, "watchFile">;
  readonly read: (files: FileReader) => Changeable;
  readonly apply: (read: () => Changeable) => Promise<void>;
  /** The file contents currently in use. */
  readonly inForce: ReadonlyMap<string, string>;
}

export function createReloading({ process, read, apply, inForce }: ReloadingOptions): Reloading {
  const watched = new Map<string, () => void>();
  let isRunning = false;
  let isAsked = false;

  /**
   * Watches a file before it is read, so that no change is missed. Watches refused files too, since they may be fixed
   * later.
   */
  function watch(path: string): void {
    if (!watched.has(path)) watched.set(path, process.watchFile(path, reload));
  }

  function reload(): void {
    isAsked = true;
    if (!isRunning) void untilNothingIsAsked();
  }

  /** Reloads one after another: files of a folder change together, and only the last reload counts. */
  async function untilNothingIsAsked(): Promise<void> {
    isRunning = true;
    while (isAsked) {
      isAsked = false;
      await apply(() => read(createReader(watch)));
    }
    isRunning = false;
  }

  function isAsInForce(): boolean {
    const reader = createReader(watch);
    try {
      read(reader);
    } catch {
      /* The file was valid at the start; the reload reports why it is not any more. */
      return false;
    }
    return [...reader.texts].every(([path, text]) => inForce.get(path) === text);
  }

  // The start took time, and files may have been replaced meanwhile.
  if (!isAsInForce()) reload();
  return {
    reload,
    end() {
      for (const unwatch of watched.values()) unwatch();
      watched.clear();
    },
  };
}
