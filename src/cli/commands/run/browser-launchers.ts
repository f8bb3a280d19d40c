import { access, constants, mkdir, writeFile } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { type BrowserProgram, chromiumFlags } from "./chromium-flags.ts";

/** Commands of browsers that take Chromium's flags. */
const browsers = [
  "chromium",
  "chromium-browser",
  "google-chrome",
  "google-chrome-stable",
  "microsoft-edge",
  "brave-browser",
];

interface LauncherOptions {
  /** Folder for the launchers. */
  readonly folder: string;
  /** The variable PATH. */
  readonly path: string;
  readonly program: BrowserProgram;
}

/**
 * Writes a script for each browser in PATH, which starts it with the flags that it needs: Chromium takes neither a key
 * nor authorities from the environment. Returns the folder, which goes before PATH; undefined: there is no browser, or
 * no port for it.
 */
export async function writeBrowserLaunchers({ folder, path, program }: LauncherOptions): Promise<string | undefined> {
  const { localPort } = program;
  if (localPort === undefined) return undefined;
  const flags = chromiumFlags(program, localPort);
  const found = await Promise.all(browsers.map(async (name) => ({ name, at: await commandIn(path, name) })));
  const there = found.filter(({ at }) => at !== undefined);
  if (there.length === 0) return undefined;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await Promise.all(
    there.map(({ name, at = "" }) =>
      // The program's own flags come last: they win.
      writeFile(join(folder, name), `#!/bin/sh\nexec ${[at, ...flags].map(quoted).join(" ")} "$@"\n`, { mode: 0o700 }),
    ),
  );
  return folder;
}

async function commandIn(path: string, name: string): Promise<string | undefined> {
  for (const folder of path.split(delimiter).filter(isAbsolute)) {
    const at = join(folder, name);
    const canRun = await access(at, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (canRun) return at;
  }
  return undefined;
}

/** A word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
