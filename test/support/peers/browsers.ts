import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The Chromium of this machine; for programs without a test runner too. */
export function pathOfChromium(): string {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const found = folders.map((folder) => join(folder, "chromium")).find(existsSync);
  if (found === undefined) throw new Error("there is no chromium on the PATH");
  return found;
}
