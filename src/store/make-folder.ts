import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { StoreRefused } from "./contract.ts";

/** Makes a private folder with its parents. Node's own `recursive` never ends where the parent makes none (`/proc`). */
export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return;
    if (code !== "ENOENT" || existsSync(dirname(folder))) {
      throw new StoreRefused(`${folder} could not be created (${code ?? error}); name a folder on a disk`);
    }
    makeFolder(dirname(folder));
    mkdirSync(folder, { mode: 0o700 });
  }
}
