import { spawnSync } from "node:child_process";
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(new URL("disk.c", import.meta.url));

/** A simulated disk under one folder: it can lose its power and cause errors. disk.c lists its assumptions. */
export interface FaultyDisk {
  /** The environment for the process that uses the disk. */
  readonly env: Readonly<Record<string, string>>;
  /** Causes the fault until `heal`. */
  fail(fault: Fault): void;
  heal(): void;
  /** Ends the process before a call that would change the disk, after this number of such calls. */
  killAfter(calls: number): void;
  /** Ends the process before it syncs a file whose name has this prefix, after this number of syncs. */
  killBeforeSync(name: string, times: number): void;
  /** The number of errors since the last start. */
  faults(): number;
  /** Once the process is dead: turns the folder into what a power loss leaves, and starts again from there. */
  losePower(loss: PowerLoss): void;
}

export interface Fault {
  readonly error: "EROFS" | "EIO" | "ENOSPC";
  /** Writing; opening for writing, renaming, deleting and truncating; syncing. */
  readonly calls: readonly ("write" | "open" | "sync")[];
  /** The number of errors; default: no limit. */
  readonly times?: number;
  /** Writes this many bytes before the first error. */
  readonly afterBytes?: number;
}

export interface PowerLoss {
  readonly random: () => number;
  /**
   * What a power loss does to names that were not synced. `own`: a sync of a file keeps its own name (btrfs).
   * `ordered`: and all earlier changes of names (the journals of ext4 and XFS).
   */
  readonly names: "own" | "ordered";
  /**
   * What a power loss does to contents that were not synced: they are gone; or partly there, cut anywhere; or the file
   * keeps its length with zeros where nothing was written yet (XFS; ext4 if a block belonged to the file before).
   */
  readonly unsynced: "gone" | "torn" | "zeros";
}

interface FaultyDiskOptions {
  /** The folder on the disk. Created if it is missing. */
  readonly folder: string;
  /** The path from `compileDisk`. */
  readonly shim: string;
  /** Syncs of files with this suffix are neither done nor counted, and succeed. */
  readonly noSync?: string;
}

/** Compiles into this folder. Returns the path to preload. */
export function compileDisk(folder: string): string {
  const shim = join(folder, "disk.so");
  const { status, stderr } = spawnSync("cc", ["-O1", "-shared", "-fPIC", "-o", shim, source, "-ldl", "-lpthread"], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`disk.c does not compile:\n${stderr}`);
  return shim;
}

export function createFaultyDisk({ folder: asked, shim, noSync = "" }: FaultyDiskOptions): FaultyDisk {
  mkdirSync(asked, { recursive: true, mode: 0o700 });
  const folder = realpathSync(asked);
  const state = `${folder}.disk`;
  let fault = 0;

  function begin(): void {
    rmSync(state, { recursive: true, force: true });
    mkdirSync(join(state, "kept"), { recursive: true });
    writeFileSync(join(state, "journal"), "");
    writeFileSync(join(state, "control"), Buffer.alloc(4_096));
  }

  /** Written in place, since the process has the file mapped. */
  function control(line: string): void {
    const fd = openSync(join(state, "control"), "r+");
    writeSync(fd, line.padEnd(127, " "), 0);
    closeSync(fd);
  }

  begin();
  return {
    env: {
      LD_PRELOAD: shim,
      DISK_FOLDER: folder,
      DISK_STATE: state,
      DISK_NO_SYNC: noSync,
      // The shim sees only calls to libc.
      UV_USE_IO_URING: "0",
    },
    fail({ error, calls, times = 0, afterBytes = 0 }) {
      fault += 1;
      control(`${fault} ${error} ${calls.map((call) => call[0]).join("")} ${times} ${afterBytes} -`);
    },
    heal() {
      control("0 - - 0 0 -");
    },
    killAfter(calls) {
      fault += 1;
      control(`${fault} KILL wos 0 ${calls} -`);
    },
    killBeforeSync(name, times) {
      fault += 1;
      control(`${fault} KILL s 0 ${times} ${name}`);
    },
    faults: () => readJournal(state).filter(([event]) => event === "!").length,
    losePower(loss) {
      const journal = readJournal(state);
      // Without a journal the process never started, and nothing can be lost.
      if (journal.length > 0) rebuild({ folder, state, journal, loss });
      begin();
    },
  };
}

type Event = readonly string[];

function readJournal(state: string): Event[] {
  const lines = readFileSync(join(state, "journal"), "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => line.split(" "));
}

interface Rebuild {
  readonly folder: string;
  readonly state: string;
  readonly journal: readonly Event[];
  readonly loss: PowerLoss;
}

function rebuild({ folder, state, journal, loss }: Rebuild): void {
  const { now, durable, contents } = replay(journal, loss);
  const pathOf = new Map<string, string>();
  for (const [name, id] of now) pathOf.set(id, join(folder, name));
  const after = `${folder}.after`;
  rmSync(after, { recursive: true, force: true });
  mkdirSync(after, { mode: statSync(folder).mode & 0o777 });

  const untouched = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name).slice(folder.length + 1))
    // Files that the process neither opened, renamed nor deleted are unchanged.
    .filter((name) => !now.has(name) && !durable.has(name));
  for (const name of untouched) place(join(folder, name), join(after, name));

  for (const [name, id] of durable) {
    const from = pathOf.get(id) ?? join(state, "kept", id);
    const { synced, isOverwritten } = contents.get(id) ?? { synced: 0, isOverwritten: false };
    const to = join(after, name);
    if (isOverwritten && loss.random() < 0.5) {
      place(join(state, "kept", `${id}.before`), to);
      continue;
    }
    place(from, to);
    if (isOverwritten) continue;
    const { size } = statSync(to);
    if (size <= synced) continue;
    truncateSync(to, loss.unsynced === "gone" ? synced : synced + Math.floor(loss.random() * (size - synced + 1)));
    if (loss.unsynced === "zeros") truncateSync(to, size);
  }
  rmSync(folder, { recursive: true });
  renameSync(after, folder);
}

function place(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

interface Contents {
  /** The bytes that are certainly there. */
  readonly synced: number;
  readonly isOverwritten: boolean;
}

/** The file of each name. */
type Names = Map<string, string>;

interface Sync {
  /** When it started: it does not cover later changes of names. */
  readonly began: number;
  readonly names: Names;
  readonly of: { readonly id: string; readonly bytes: number } | { readonly directory: string };
}

/** Names before the power loss, names after it, and how much of each file is certain. */
function replay(journal: readonly Event[], loss: PowerLoss) {
  const contents = new Map<string, Contents>();
  const now: Names = new Map();
  for (const [event, id = "", bytes, name = ""] of journal) {
    if (event !== "k") continue;
    now.set(name, id);
    contents.set(id, { synced: Number(bytes), isOverwritten: false });
  }
  const names = createDurableNames(now, loss);
  const syncs = new Map<string, Sync>();

  for (const [began, [event, first = "", second = "", third = "", fourth = ""]] of journal.entries()) {
    switch (event) {
      case "c":
        now.set(second, first);
        contents.set(first, { synced: 0, isOverwritten: false });
        break;
      case "r":
        now.delete(second);
        now.set(fourth, first);
        break;
      case "u":
        now.delete(second);
        break;
      case "p":
        contents.set(first, { synced: contents.get(first)?.synced ?? 0, isOverwritten: true });
        break;
      case "b":
        syncs.set(first, { began, names: new Map(now), of: { id: second, bytes: Number(third) } });
        break;
      case "d":
        syncs.set(first, { began, names: new Map(now), of: { directory: second } });
        break;
      case "e": {
        const sync = syncs.get(first);
        if (sync === undefined) throw new Error(`sync ${first} ended and never began`);
        syncs.delete(first);
        if ("id" in sync.of) contents.set(sync.of.id, { synced: sync.of.bytes, isOverwritten: false });
        names.cover(sync);
        break;
      }
    }
  }
  return { now, durable: names.all, contents };
}

function createDurableNames(initial: Names, loss: PowerLoss) {
  const all: Names = new Map(initial);
  /** Up to when each name is certain: a sync that started earlier and ended later adds nothing. */
  const certain = new Map<string, number>();
  const directoryOf = (name: string) => (dirname(name) === "." ? "" : dirname(name));

  return {
    all,
    cover({ began, names, of }: Sync): void {
      for (const name of new Set([...all.keys(), ...names.keys()])) {
        const isCovered =
          loss.names === "ordered" ||
          ("id" in of ? all.get(name) === of.id || names.get(name) === of.id : directoryOf(name) === of.directory);
        if (!isCovered || began < (certain.get(name) ?? -1)) continue;
        certain.set(name, began);
        const id = names.get(name);
        if (id === undefined) all.delete(name);
        else all.set(name, id);
      }
    },
  };
}
