import { readFileSync } from "node:fs";

/** How many file descriptors the process may have open; undefined where the system does not say. */
export function openFilesLimit(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * The largest share of the process's file descriptors that the connections of a door may take. Each request of the data
 * door may need another one towards a provider; the store, and probes at the ops door, need the rest.
 */
const shares = { data: 1 / 3, public: 1 / 10, control: 1 / 10, ops: 1 / 32 };
const fewest = 8;

type Connections = Readonly<Record<keyof typeof shares, number>>;

/** The configured numbers of connections, or as many as fit the limit of open files. */
export function fitOpenFiles(wanted: Connections, files: number | undefined): Connections {
  if (files === undefined) return wanted;
  const most = (door: keyof typeof shares) =>
    Math.min(wanted[door], Math.max(fewest, Math.floor(files * shares[door])));
  return { data: most("data"), public: most("public"), control: most("control"), ops: most("ops") };
}
