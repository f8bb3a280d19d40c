import { readFileSync } from "node:fs";

/** Returns the limit of open file descriptors; undefined if the system does not report it. */
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
 * Maximum share of the process's file descriptors for the connections of each listener. A request on the data listener
 * may need another descriptor for the provider; the store, and probes on the ops listener, need the rest.
 */
const shares = { data: 1 / 3, forwardProxy: 1 / 6, public: 1 / 10, control: 1 / 10, ops: 1 / 32, ui: 1 / 32 };
const fewest = 8;

type ConnectionLimitsByDoor = Readonly<Record<keyof typeof shares, number>>;

/** Reduces the configured numbers of connections to what the limit of open files allows. */
export function fitOpenFiles(wanted: ConnectionLimitsByDoor, files: number | undefined): ConnectionLimitsByDoor {
  if (files === undefined) return wanted;
  const most = (door: keyof typeof shares) =>
    Math.min(wanted[door], Math.max(fewest, Math.floor(files * shares[door])));
  return {
    data: most("data"),
    public: most("public"),
    control: most("control"),
    ops: most("ops"),
    ui: most("ui"),
    forwardProxy: most("forwardProxy"),
  };
}
