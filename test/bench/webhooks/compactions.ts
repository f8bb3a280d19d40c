import { watch } from "node:fs";

/** When something happened, by the wall clock, in milliseconds. */
interface Period {
  readonly from: number;
  readonly until: number;
}

export interface TableWatch {
  /** The times in which LevelDB wrote tables: each from its first to its last change. */
  periods(): readonly Period[];
  close(): void;
}

/** LevelDB's packaging writes no log of its compactions: the tables that appear in the folder tell of them. */
export function watchTables(folder: string): TableWatch {
  const periods = new Map<string, Period>();
  const watcher = watch(folder, (_, name) => {
    if (name?.endsWith(".ldb") !== true) return;
    const now = Date.now();
    const known = periods.get(name);
    // A table is deleted long after it was written.
    if (known === undefined) periods.set(name, { from: now, until: now });
    else if (now - known.until < apartMs) periods.set(name, { from: known.from, until: now });
  });
  return { periods: () => [...periods.values()], close: () => watcher.close() };
}

const apartMs = 200;
