import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create, toBinary } from "@bufbuild/protobuf";
import { sizeDelimitedDecodeStream } from "@bufbuild/protobuf/wire";
import { expect, it } from "vitest";
import { BackupEntrySchema, DataKeySchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { createContentDigest, readBackup, verifyBackup, writeBackup } from "../../../../src/store/backup/backup.ts";
import { BackupDamaged } from "../../../../src/store/backup/format.ts";
import type { Entry, Snapshot } from "../../../../src/store/contract.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const entry = (key: string, value: string | Uint8Array = "v", revision = 1): Entry => ({
  key,
  value: typeof value === "string" ? bytes(value) : value,
  revision,
});
const about = { storeId: "the-store", format: 2, createdMs: Date.UTC(2026, 0, 2) };

async function* each<T>(...items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

function snapshotOf(entries: readonly Entry[], { revision = 9, atOnce = 3 } = {}): Snapshot {
  async function* pages() {
    for (let at = 0; at < entries.length; at += atOnce) yield entries.slice(at, at + atOnce);
  }
  return { revision, pages, close: async () => {} };
}

async function backupOf(snapshot: Snapshot): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const piece of writeBackup(snapshot, about)) if (piece.case === "chunk") chunks.push(piece.value);
  return Buffer.concat(chunks);
}

async function read(...chunks: readonly Uint8Array[]): Promise<Entry[]> {
  const found: Entry[] = [];
  for await (const page of readBackup(each(...chunks))) found.push(...page);
  return found.map(({ key, value, revision }) => ({ key, value: Uint8Array.from(value), revision }));
}

/** The mistake in a backup; undefined for a complete one. */
async function wrongWith(...chunks: readonly Uint8Array[]): Promise<string | undefined> {
  try {
    await verifyBackup(each(...chunks));
    return undefined;
  } catch (error) {
    if (error instanceof BackupDamaged) return error.message;
    throw error;
  }
}

const some = [
  entry("a", "", 1),
  entry(
    "a\0b",
    Uint8Array.from({ length: 256 }, (_, i) => i),
    2 ** 40,
  ),
  entry("ünï", "x".repeat(300), 3),
  entry("\uffee", "before what is beyond the BMP", 4),
  entry("\u{1f511}", "a key", 2 ** 40),
];
const newest = 2 ** 40;

it("returns its content, in any chunks", async () => {
  const backup = await backupOf(snapshotOf(some, { revision: newest }));
  expect(await read(backup)).toEqual(some);
  for (const size of [1, 2, 7, 100]) {
    const cut = Array.from({ length: Math.ceil(backup.length / size) }, (_, i) =>
      backup.subarray(i * size, (i + 1) * size),
    );
    expect(await read(...cut)).toEqual(some);
  }
});

it("describes its content and its store", async () => {
  const dataKey = (sealKeyId: string, at: string) =>
    entry(`seal\0${at}`, toBinary(DataKeySchema, create(DataKeySchema, { sealKeyId, wrapped: bytes("w") })));
  const keys = [dataKey("old", "0"), dataKey("new", "1"), dataKey("old", "2")];
  const manifest = await verifyBackup(each(await backupOf(snapshotOf(keys))));
  expect(manifest).toMatchObject({
    storeId: "the-store",
    format: 2,
    revision: 9n,
    count: 3n,
    keyIds: ["new", "old"],
    version: "0.1.0",
    createdAt: { seconds: BigInt(about.createdMs / 1_000) },
  });
  expect(manifest.sha256).toHaveLength(32);
});

it("can hold an empty store", async () => {
  expect(await verifyBackup(each(await backupOf(snapshotOf([], { revision: 0 }))))).toMatchObject({ count: 0n });
});

it("has the form that was once written down", async () => {
  const backup = await backupOf(snapshotOf([entry("a", "1", 1), entry("b", "2", 300)], { revision: 300 }));
  const entries = "080a016112013118" + "01" + "090a016212013218" + "ac02";
  const manifestAt = 18 + entries.length / 2 + 1;
  expect(backup.subarray(0, manifestAt).toString("latin1")).toBe(
    `latchkey backup 1\n${Buffer.from(`${entries}00`, "hex").toString("latin1")}`,
  );
  const { sha256 } = await verifyBackup(each(backup));
  expect(Buffer.from(sha256)).toEqual(createHash("sha256").update(Buffer.from(entries, "hex")).digest());
});

it("is protobuf, so that others can read it", async () => {
  const backup = await backupOf(snapshotOf(some, { revision: newest }));
  const seen: Entry[] = [];
  for await (const one of sizeDelimitedDecodeStream(BackupEntrySchema, each(backup.subarray(18)))) {
    seen.push({ key: Buffer.from(one.key).toString(), value: one.value, revision: Number(one.revision) });
    if (seen.length === some.length) break;
  }
  expect(seen).toEqual(some);
});

it("comes in chunks of 64 KiB, whatever the size of entries, with the manifest at the end", async () => {
  const large = [entry("a", "x".repeat(300_000)), entry("b"), entry("c", "y".repeat(70_000))];
  const sizes: number[] = [];
  let last = "";
  for await (const piece of writeBackup(snapshotOf(large), about)) {
    last = piece.case;
    if (piece.case === "chunk") sizes.push(piece.value.length);
  }
  expect(last).toBe("manifest");
  expect(sizes.slice(0, -1).every((size) => size === 65_536)).toBe(true);
  expect(sizes).toHaveLength(6);
});

it("reads no further than its reader has come", async () => {
  let taken = 0;
  const pages = async function* () {
    for (let i = 0; i < 100; i += 1) {
      taken += 1;
      yield [entry(String(i).padStart(3, "0"), "x".repeat(70_000))];
    }
  };
  const backup = writeBackup({ revision: 9, pages, close: async () => {} }, about);
  for (let i = 0; i < 5; i += 1) await backup.next();
  await backup.return(undefined);
  expect(taken).toBeLessThan(7);
});

it("buffers little, whatever the size of the store", async () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  const written: WeakRef<object>[] = [];
  const seen: WeakRef<object>[] = [];
  const pages = async function* () {
    for (let i = 0; i < 200; i += 1) {
      const page = [entry(String(i).padStart(8, "0"), Buffer.alloc(100_000))];
      written.push(new WeakRef(page));
      yield page;
    }
  };
  async function* chunks() {
    for await (const piece of writeBackup({ revision: 9, pages, close: async () => {} }, about)) {
      if (piece.case === "chunk") yield piece.value;
    }
    // A weak reference keeps its target alive until the tick in which it was created has ended.
    await setImmediate();
    collect();
    held.push(...[written, seen].map((refs) => refs.filter((ref) => ref.deref() !== undefined).length));
  }
  const held: number[] = [];
  await verifyBackup(chunks(), (page) => void seen.push(new WeakRef(page)));
  expect([written.length, seen.length]).toEqual([200, 200]);
  expect(Math.max(...held)).toBeLessThan(5);
});

it("has the same hash with any pages, and another when any entry differs", async () => {
  const sha = async (entries: readonly Entry[], atOnce: number) => {
    const manifest = await verifyBackup(each(await backupOf(snapshotOf(entries, { revision: newest, atOnce }))));
    return Buffer.from(manifest.sha256).toString("hex");
  };
  const first = await sha(some, 1);
  expect(await sha(some, 2)).toBe(first);
  expect(await sha(some, 100)).toBe(first);
  const digest = createContentDigest();
  for (const one of some) digest.add([one]);
  expect(Buffer.from(digest.result().sha256).toString("hex")).toBe(first);

  const [head, ...rest] = some;
  if (head === undefined) throw new Error("there are some");
  for (const other of [
    { ...head, key: "b" },
    { ...head, value: bytes("1") },
    { ...head, revision: 2 },
  ]) {
    expect(await sha([other, ...rest.slice(1)], 9)).not.toBe(await sha([head, ...rest.slice(1)], 9));
  }
});

it("is refused when it is cut off, wherever that is", async () => {
  const backup = await backupOf(snapshotOf(some, { revision: newest }));
  const whole: number[] = [];
  for (let end = 0; end < backup.length; end += 1) {
    const wrong = await wrongWith(backup.subarray(0, end));
    if (wrong === undefined) whole.push(end);
    else expect(wrong).toMatch(/ends too early, after [0-5] entries/);
  }
  expect(whole).toEqual([]);
});

it("is refused when any bit is changed", async () => {
  const backup = await backupOf(snapshotOf(some, { revision: newest }));
  const unnoticed: string[] = [];
  for (let at = 0; at < backup.length; at += 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const bent = Buffer.from(backup);
      bent[at] = (bent[at] ?? 0) ^ (1 << bit);
      if ((await wrongWith(bent)) === undefined) unnoticed.push(`${at}/${bit}`);
    }
  }
  expect(unnoticed).toEqual([]);
});

it.each([
  ["twice in one file", (backup: Buffer) => Buffer.concat([backup, backup]), /data follows its end/],
  ["followed by a line's end", (backup: Buffer) => Buffer.concat([backup, Buffer.from("\n")]), /follows its end/],
  ["another file", () => Buffer.from("PK\x03\x04 and so on, long enough"), /not a Latchkey backup/],
  ["of a later format", (backup: Buffer) => Buffer.concat([Buffer.from("latchkey backup 2\n"), backup]), /format/],
  ["empty", () => Buffer.alloc(0), /ends too early/],
  ["without its first entry", (backup: Buffer) => without(backup, 18, 26), /4 of 5 entries/],
  ["with a length that cannot be", (backup: Buffer) => overwrite(backup, 18, [255, 255, 255, 127]), /cannot be read/],
])("is refused when it is %s", async (_what, change, why) => {
  const backup = await backupOf(snapshotOf(some, { revision: newest }));
  expect(await wrongWith(change(backup))).toMatch(why);
});

const without = (whole: Buffer, from: number, to: number) =>
  Buffer.concat([whole.subarray(0, from), whole.subarray(to)]);
const overwrite = (whole: Buffer, at: number, by: readonly number[]) => {
  const copy = Buffer.from(whole);
  copy.set(by, at);
  return copy;
};

it.each([
  ["keys out of order", [entry("b"), entry("a")], /entry 2 is out of order/],
  ["a key twice", [entry("a"), entry("a")], /entry 2 is out of order/],
  ["an order that is JavaScript's and not of UTF-8", [entry("\u{1f511}"), entry("\uffee")], /out of order/],
  ["a key that is a backend's own", [entry("\0head")], /entry 1 cannot be read/],
  ["an empty key", [entry("")], /entry 1 cannot be read/],
  ["an entry that nothing committed", [entry("a", "v", 0)], /entry 1 cannot be read/],
  ["an entry that is newer than it is", [entry("a", "v", 10)], /newer than its revision 9/],
])("is refused with %s", async (_what, entries, why) => {
  expect(await wrongWith(await backupOf(snapshotOf(entries)))).toMatch(why);
});
