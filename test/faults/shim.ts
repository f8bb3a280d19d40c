import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { compileDisk } from "./disk.ts";

/** Compiles disk.c for a file's tests. Returns its path. */
export function useDiskShim(): () => string {
  let folder: string | undefined;
  let shim = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "latchkey-disk-"));
    shim = compileDisk(folder);
  });
  afterAll(() => {
    if (folder !== undefined) rmSync(folder, { recursive: true });
  });
  return () => shim;
}
