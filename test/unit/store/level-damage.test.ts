import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { cp } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { Level } from "level";
import { describe, expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { type Backend, StoreDamaged, StoreRefused } from "../../../src/store/contract.ts";
import { crc32c } from "../../../src/store/level/bytes.ts";
import { openLevelStore } from "../../../src/store/level/level.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });
const open = (folder: string, create = true) => openLevelStore({ folder, create, log, metrics: createMetrics() });

const padding = "x".repeat(380);
const written = 4_000;
const keyAt = (i: number) => `k${String(i).padStart(6, "0")}`;

async function fill(store: Backend, from: number, to: number): Promise<void> {
  for (let i = from; i < to; i += 100) {
    await Promise.all(
      Array.from({ length: 100 }, (_, j) =>
        store.commit([{ key: keyAt(i + j), value: new TextEncoder().encode(`${i + j} ${padding}`) }]),
      ),
    );
  }
}

/** A store with a table or two and a log, as a kill -9 leaves it: copied while it runs. */
async function storeWith({ tables }: { readonly tables: boolean }): Promise<string> {
  const folder = join(await temporaryFolder(), "store");
  let store = await open(folder);
  await fill(store, 0, written / 2);
  if (tables) {
    // Opening it again writes its log into a table.
    await store.close();
    store = await open(folder);
  }
  await fill(store, written / 2, written);
  const copy = `${folder}-copy`;
  await cp(folder, copy, { recursive: true, filter: (from) => basename(from) !== "lock" });
  chmodSync(copy, 0o700);
  await store.close();
  return copy;
}

const named = (folder: string, pattern: RegExp) => readdirSync(folder).filter((name) => pattern.test(name));
const largest = (folder: string, pattern: RegExp): string => {
  const [first = ""] = named(folder, pattern).toSorted(
    (a, b) => statSync(join(folder, b)).size - statSync(join(folder, a)).size,
  );
  return join(folder, first);
};

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  const where = at < 0 ? bytes.length + at : at;
  bytes[where] = (bytes[where] ?? 0) ^ 0x10;
  writeFileSync(path, bytes);
}

/** Either everything is there, or the loss is reported. */
async function outcome(folder: string): Promise<"refused" | "damaged" | "whole" | "LOST"> {
  let store: Backend;
  try {
    store = await open(folder);
  } catch (error) {
    expect(error).toBeInstanceOf(StoreRefused);
    expect((error as Error).message).toMatch(/backup|moved|newer/);
    return "refused";
  }
  try {
    const found = await store.list({ from: "k", to: "l", limit: 1_000_000 });
    return found.length === written ? "whole" : "LOST";
  } catch (error) {
    expect(error).toBeInstanceOf(StoreDamaged);
    return "damaged";
  } finally {
    await store.close();
  }
}

it("opens a copy after a kill, with everything in it", async () => {
  expect(await outcome(await storeWith({ tables: true }))).toBe("whole");
});

describe("S05 a damaged byte", () => {
  it.each([0.01, 0.2, 0.5, 0.8, 0.99])("in the log, %f of the way through it, is refused", async (share) => {
    const folder = await storeWith({ tables: false });
    const path = largest(folder, /\.log$/);
    flip(path, Math.floor(statSync(path).size * share));
    expect(await outcome(folder)).toBe("refused");
  });

  it("in a table is refused, wherever it is", async () => {
    const folder = await storeWith({ tables: true });
    const path = largest(folder, /\.ldb$/);
    const sound = readFileSync(path);
    // Everywhere but in the padding of the footer, which is never read.
    const places = [
      0,
      1,
      77,
      1_000,
      5_000,
      sound.length >> 1,
      sound.length - 100,
      sound.length - 49,
      sound.length - 46,
      sound.length - 3,
    ];
    for (const at of places) {
      flip(path, at);
      expect({ at, outcome: await outcome(folder) }).toEqual({ at, outcome: "refused" });
      writeFileSync(path, sound);
    }
    expect(await outcome(folder)).toBe("whole");
  });

  it.each(["CURRENT", "MANIFEST", "latchkey.json"])("in %s is refused", async (name) => {
    const folder = await storeWith({ tables: true });
    const path = largest(folder, new RegExp(`^${name}`));
    flip(path, 12);
    expect(await outcome(folder)).toBe("refused");
  });

  it("in the progress record loses nothing, and is overwritten", async () => {
    const folder = await storeWith({ tables: true });
    const tail = join(folder, "tail");
    for (const at of [0, 5, 10, 17, 26]) {
      const copy = `${folder}-${at}`;
      await cp(folder, copy, { recursive: true });
      chmodSync(copy, 0o700);
      flip(join(copy, "tail"), at);
      expect(await outcome(copy)).toBe("whole");
    }
    expect(statSync(tail).size).toBe(32);
  });
});

describe("S09 the last edit of LevelDB's manifest, which a power loss kept from being synced,", () => {
  const manifestOf = (folder: string) => join(folder, readFileSync(join(folder, "CURRENT"), "utf8").trim());

  /** A piece of LevelDB's log: a masked checksum, the length, the kind (1 whole, 2 first, 4 last), the bytes. */
  function piece(kind: number, bytes: Buffer): Buffer {
    const written = Buffer.concat([Buffer.alloc(6), Buffer.from([kind]), bytes]);
    const checksum = crc32c(written, 6, written.length);
    written.writeUInt32LE((((checksum >>> 15) | (checksum << 17)) + 0xa282ead8) >>> 0);
    written.writeUInt16LE(bytes.length, 4);
    return written;
  }

  // It names a future log: the content of earlier logs would be lost.
  const edit = (bytes: number) => Buffer.concat([Buffer.from([2, 0x8f, 0x4e]), Buffer.alloc(bytes, 0x55)]);

  /** The state on disk after a part of an edit was written to a preallocated file. */
  function tear(folder: string, written: Buffer, cut: number): void {
    appendFileSync(manifestOf(folder), Buffer.concat([written.subarray(0, cut), Buffer.alloc(written.length - cut)]));
  }

  async function copyOf(folder: string): Promise<string> {
    const copy = `${folder}-torn`;
    rmSync(copy, { recursive: true, force: true });
    await cp(folder, copy, { recursive: true });
    chmodSync(copy, 0o700);
    return copy;
  }

  it("loses nothing, wherever it was cut and zeros follow", async () => {
    const folder = await storeWith({ tables: true });
    const written = piece(1, edit(60));
    for (const cut of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, written.length - 1]) {
      const copy = await copyOf(folder);
      tear(copy, written, cut);
      expect({ cut, outcome: await outcome(copy) }).toEqual({ cut, outcome: "whole" });
      expect(await outcome(copy)).toBe("whole");
    }
  });

  it("loses nothing at the end of a block", async () => {
    const folder = await storeWith({ tables: true });
    const left = 32_768 - statSync(manifestOf(folder)).size - 7;
    const bytes = edit(40_000);
    const [head, tail] = [piece(2, bytes.subarray(0, left)), piece(4, bytes.subarray(left))];
    const written = Buffer.concat([head, tail]);
    for (const cut of [3, 1_000, head.length - 1, head.length, head.length + 5, head.length + 7, written.length - 1]) {
      const copy = await copyOf(folder);
      tear(copy, written, cut);
      expect({ cut, outcome: await outcome(copy) }).toEqual({ cut, outcome: "whole" });
    }
  });

  /** Edits that add a table, record the compaction of its level, and remove it again. */
  const key = (bytes: number) =>
    Buffer.concat([
      Buffer.from([(bytes & 127) | 128, ((bytes >> 7) & 127) | 128, bytes >> 14]),
      Buffer.alloc(bytes, 0x55),
    ]);
  const came = piece(1, Buffer.concat([Buffer.from([7, 6, 99, 1]), key(9), key(9)]));
  const compacted = (bytes: number) => piece(1, Buffer.concat([Buffer.from([5, 6]), key(bytes)]));
  const went = piece(1, Buffer.from([6, 6, 99]));

  it("loses nothing, whatever edits came before", async () => {
    const folder = await storeWith({ tables: true });
    appendFileSync(manifestOf(folder), Buffer.concat([came, compacted(9), went]));
    tear(folder, piece(1, edit(60)), 40);
    expect(await outcome(folder)).toBe("whole");
  });

  it("loses nothing when the block before has no room for a header", async () => {
    const folder = await storeWith({ tables: true });
    const room = 3;
    const left = 32_768 - statSync(manifestOf(folder)).size - came.length - compacted(0).length - room;
    appendFileSync(manifestOf(folder), Buffer.concat([came, compacted(left), Buffer.alloc(room), went]));
    tear(folder, piece(1, edit(60)), 40);
    expect(await outcome(folder)).toBe("whole");
  });

  it.each([
    ["the log", /\.log$/],
    ["a table", /\.ldb$/],
  ])("refuses to open when earlier %s are gone, and changes nothing", async (_, pattern) => {
    const folder = await storeWith({ tables: true });
    // The table that the edit would have added: LevelDB deletes tables that no edit names.
    copyFileSync(largest(folder, /\.ldb$/), join(folder, "000099.ldb"));
    rmSync(largest(folder, pattern));
    tear(folder, piece(1, edit(60)), 40);
    const before = readFileSync(manifestOf(folder));
    expect(await outcome(folder)).toBe("refused");
    expect(readFileSync(manifestOf(folder))).toEqual(before);
    expect(named(folder, /^000099\.ldb$/)).toHaveLength(1);
  });

  it("is refused when it is damaged otherwise: in its middle, or with something behind it", async () => {
    const folder = await storeWith({ tables: true });
    const written = piece(1, edit(60));
    const flipped = Buffer.from(written);
    flipped[30] = 0;
    const holed = Buffer.concat([written.subarray(0, 30), Buffer.alloc(written.length - 30), piece(1, edit(3))]);
    const behind = Buffer.concat([written.subarray(0, 30), Buffer.alloc(100), Buffer.from("x\0")]);
    for (const damaged of [flipped, holed, behind]) {
      const copy = await copyOf(folder);
      appendFileSync(manifestOf(copy), damaged);
      const before = readFileSync(manifestOf(copy));
      expect(await outcome(copy)).toBe("refused");
      expect(readFileSync(manifestOf(copy))).toEqual(before);
    }
  });
});

describe("a missing file", () => {
  it("S04 is refused when it is CURRENT, and no new store is created over the old files", async () => {
    const folder = await storeWith({ tables: true });
    rmSync(join(folder, "CURRENT"));
    const before = readdirSync(folder).toSorted();
    await expect(open(folder)).rejects.toThrow(/CURRENT is missing.*not empty.*backup/);
    rmSync(join(folder, "latchkey.json"));
    await expect(open(folder)).rejects.toThrow(/CURRENT is missing.*not empty.*backup/);
    expect(readdirSync(folder).toSorted()).toEqual(before.filter((name) => name !== "latchkey.json"));
  });

  it("S06 is refused when it is the log: the ledger knows its end", async () => {
    const folder = await storeWith({ tables: true });
    rmSync(largest(folder, /\.log$/));
    await expect(open(folder)).rejects.toThrow(/was at revision 4000 and is at 2\d\d\d now.*backup/s);
  });

  it.each([/\.ldb$/, /^MANIFEST/])("is refused when it is %s", async (pattern) => {
    const folder = await storeWith({ tables: true });
    rmSync(largest(folder, pattern));
    expect(await outcome(folder)).toBe("refused");
  });

  it("is refused when it is everything but the marker", async () => {
    const folder = await storeWith({ tables: true });
    for (const name of readdirSync(folder)) if (name !== "latchkey.json") rmSync(join(folder, name));
    expect(await outcome(folder)).toBe("refused");
  });

  it("is written again when it is the marker alone", async () => {
    const folder = await storeWith({ tables: true });
    const { storeId } = JSON.parse(readFileSync(join(folder, "latchkey.json"), "utf8"));
    rmSync(join(folder, "latchkey.json"));
    expect(await outcome(folder)).toBe("whole");
    expect(JSON.parse(readFileSync(join(folder, "latchkey.json"), "utf8")).storeId).toBe(storeId);
  });

  it.each([7, 3_000, 100_000])("is refused when it is the last %i bytes of the log", async (bytes) => {
    const folder = await storeWith({ tables: false });
    const path = largest(folder, /\.log$/);
    truncateSync(path, statSync(path).size - bytes);
    expect(await outcome(folder)).toBe("refused");
  });

  it("is ignored when the log has an unfinished record at its end", async () => {
    for (const garbage of [Buffer.alloc(32_768), Buffer.from("garbage that a power loss left behind")]) {
      const folder = await storeWith({ tables: false });
      appendFileSync(largest(folder, /\.log$/), garbage);
      expect(await outcome(folder)).toBe("whole");
    }
  });

  it("is found when a log of an earlier time takes the place of the last one", async () => {
    const folder = join(await temporaryFolder(), "store");
    const store = await open(folder);
    await fill(store, 0, 1_000);
    const log = largest(folder, /\.log$/);
    copyFileSync(log, `${folder}.earlier`);
    await fill(store, 1_000, written);
    const copy = `${folder}-copy`;
    await cp(folder, copy, { recursive: true, filter: (from) => basename(from) !== "lock" });
    chmodSync(copy, 0o700);
    await store.close();
    copyFileSync(`${folder}.earlier`, join(copy, basename(log)));
    expect(await outcome(copy)).toBe("refused");
  });
});

it("refuses a folder that holds another store's files beside its marker", async () => {
  const [one, other] = [await storeWith({ tables: false }), await storeWith({ tables: false })];
  copyFileSync(join(other, "latchkey.json"), join(one, "latchkey.json"));
  await expect(open(one)).rejects.toThrow(/the marker names the store/);
});

it("finds with a scrub damage that happened while it ran, and keeps serving the rest", async () => {
  const folder = join(await temporaryFolder(), "store");
  await (await open(folder)).close();
  let store = await open(folder);
  await fill(store, 0, written);
  await store.close();
  store = await open(folder);
  onTestFinished(() => store.close());
  flip(largest(folder, /\.ldb$/), 40_000);
  const damaged: string[] = [];
  for await (const step of store.scrub()) damaged.push(...step.damaged);
  expect(damaged[0]).toMatch(/the file \d+\.ldb/);
  expect((await store.get(keyAt(written - 1)))?.value).toBeDefined();
});

describe("S03 one folder, however it is written", () => {
  it("is opened once in a process", async () => {
    const parent = await temporaryFolder();
    const folder = join(parent, "store");
    const store = await open(folder);
    symlinkSync(folder, join(parent, "link"));
    const spellings = [
      folder,
      `${folder}/`,
      join(parent, "link"),
      `${parent}/./store`,
      relative(process.cwd(), folder),
    ];
    for (const spelling of spellings) await expect(open(spelling)).rejects.toThrow(/in use|already/);
    // The failed attempts did not affect the process that has it open.
    await store.commit([{ key: "k", value: new Uint8Array() }]);
    await store.close();
    const again = await open(join(parent, "link"));
    expect(await again.get("k")).toBeDefined();
    await again.close();
  });

  it("is opened once when two ask at the same moment", async () => {
    const folder = join(await temporaryFolder(), "store");
    const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => open(folder)));
    const opened = outcomes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    expect(opened).toHaveLength(1);
    await opened[0]?.close();
  });

  it("is locked and opened again though its path is longer than a socket's may be", async () => {
    const folder = join(await temporaryFolder(), "a".repeat(90), "b".repeat(90), "store");
    const store = await open(folder);
    await expect(open(`${folder}/.`)).rejects.toThrow(/already/);
    await store.close();
    await (await open(folder)).close();
  });
});

describe("S10 a format", () => {
  it("that is newer is refused, by the marker and by the records", async () => {
    const folder = await storeWith({ tables: false });
    const path = join(folder, "latchkey.json");
    const marker = JSON.parse(readFileSync(path, "utf8"));
    writeFileSync(path, JSON.stringify({ ...marker, format: 99 }));
    await expect(open(folder)).rejects.toThrow(/format 99.*newer/);
    rmSync(path);
    const db = new Level<string, Uint8Array>(folder, { keyEncoding: "utf8", valueEncoding: "view" });
    const head = Buffer.from((await db.get("\0head")) ?? []);
    head[0] = 99;
    await db.put("\0head", head);
    await db.close();
    await expect(open(folder)).rejects.toThrow(/newer/);
  });

  it("of before there were checksums is brought up to date, also when that was cut short", async () => {
    const folder = await olderStore(2_500);
    // The state after a kill in the middle: some values are new, the head is old.
    const half = `${folder}-half`;
    const upgraded = `${folder}-upgraded`;
    await cp(folder, upgraded, { recursive: true });
    chmodSync(upgraded, 0o700);
    await (await open(upgraded)).close();
    await cp(folder, half, { recursive: true });
    chmodSync(half, 0o700);
    await copyFirst(upgraded, half, 1_200);

    for (const one of [upgraded, half]) {
      const store = await open(one);
      const found = await store.list({ from: "k", to: "l", limit: 10_000 });
      expect(found).toHaveLength(2_500);
      expect(found.map(({ revision }) => revision)).toEqual(Array.from({ length: 2_500 }, (_, i) => i + 1));
      expect(new TextDecoder().decode(found[77]?.value)).toBe("value 77");
      expect(store.status()).toMatchObject({ revision: 2_500, format: 2 });
      expect(await store.commit([{ key: "more", value: new Uint8Array() }])).toBe(2_501);
      await store.close();
      expect(JSON.parse(readFileSync(join(one, "latchkey.json"), "utf8")).format).toBe(2);
    }
  });
});

const first = (revision: number, value: string) => {
  const head = Buffer.alloc(7);
  head[0] = 1;
  head.writeUIntBE(revision, 1, 6);
  return Buffer.concat([head, Buffer.from(value)]);
};

async function olderStore(entries: number): Promise<string> {
  const folder = join(await temporaryFolder(), "older");
  mkdirSync(folder, { mode: 0o700 });
  const db = new Level<string, Uint8Array>(folder, { keyEncoding: "utf8", valueEncoding: "view" });
  await db.batch(
    Array.from({ length: entries }, (_, i) => ({
      type: "put" as const,
      key: keyAt(i),
      value: first(i + 1, `value ${i}`),
    })),
  );
  await db.put("\0head", first(entries, ""));
  await db.close();
  return folder;
}

async function copyFirst(from: string, to: string, count: number): Promise<void> {
  const [source, target] = [from, to].map(
    (folder) => new Level<string, Uint8Array>(folder, { keyEncoding: "utf8", valueEncoding: "view" }),
  );
  for await (const [key, value] of source?.iterator({ gte: "k", lt: "l", limit: count }) ?? []) {
    await target?.put(key, value);
  }
  await source?.close();
  await target?.close();
}

it("S13 makes its files private again", async () => {
  const folder = await storeWith({ tables: true });
  for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
  const store = await open(folder);
  const readable = readdirSync(folder).filter((name) => (statSync(join(folder, name)).mode & 0o077) !== 0);
  await store.close();
  // A socket is closed to others by its folder.
  expect(readable).toEqual(["lock"]);
});

it("is not created by a reader", async () => {
  const folder = join(await temporaryFolder(), "nothing");
  await expect(open(folder, false)).rejects.toThrow(/there is no store/);
  mkdirSync(folder, { mode: 0o700 });
  await expect(open(folder, false)).rejects.toThrow(/there is no store/);
  expect(readdirSync(folder)).toEqual([]);
});

it("is created again if its creation was interrupted before any commit", async () => {
  const folder = join(await temporaryFolder(), "store");
  await (await open(folder)).close();
  for (const name of ["latchkey.json", "tail"]) rmSync(join(folder, name));
  const store = await open(folder);
  expect(store.status()).toMatchObject({ revision: 0, writable: true });
  await store.close();
});

it("refuses a folder in which a restore was not finished", async () => {
  const folder = join(await temporaryFolder(), "store");
  const store = await open(folder);
  async function* torn() {
    yield [{ key: "a", value: new Uint8Array(), revision: 3 }];
    throw new Error("the file was torn");
  }
  await expect(store.fill({ revision: 3, pages: torn() })).rejects.toThrow("the file was torn");
  await store.close();
  await expect(open(folder)).rejects.toThrow(/not finished/);
});
