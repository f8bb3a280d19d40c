import { readFileSync, statSync } from "node:fs";
import type { Changeable } from "../../config/config.ts";
import type { FileReader } from "../../config/secrets.ts";
import type { Process } from "./process.ts";

/** Reads files, and remembers what they said. */
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
  /** What the files said that are in force. */
  readonly inForce: ReadonlyMap<string, string>;
}

export function createReloading({ process, read, apply, inForce }: ReloadingOptions): Reloading {
  const watched = new Map<string, () => void>();
  let isRunning = false;
  let isAsked = false;

  /** Before it is read, so that no change falls in between. One that is refused too: it may be what is to be mended. */
  function watch(path: string): void {
    if (!watched.has(path)) watched.set(path, process.watchFile(path, reload));
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
      await apply(() => read(createReader(watch)));
    }
    isRunning = false;
  }

  function isAsInForce(): boolean {
    const reader = createReader(watch);
    try {
      read(reader);
    } catch {
      /* It was good when we started; why it is not now, the reload says. */
      return false;
    }
    return [...reader.texts].every(([path, text]) => inForce.get(path) === text);
  }

  // Starting took its time, and who replaces a file does not wait for it.
  if (!isAsInForce()) reload();
  return {
    reload,
    end() {
      for (const unwatch of watched.values()) unwatch();
      watched.clear();
    },
  };
}
