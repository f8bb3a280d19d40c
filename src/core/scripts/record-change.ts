import { hash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault, type Mistake } from "../../base/fault.ts";
import { canonicalJson } from "../dialect/canonical-json.ts";
import { isObject } from "../dialect/json-fields.ts";

/**
 * The field of a record's metadata for readers. Other products' documentation calls it `_nango_metadata`, so we use the
 * same name.
 */
export const metadataField = "_nango_metadata";
export type RecordAction = "ADDED" | "UPDATED" | "DELETED";
export const recordActions: readonly RecordAction[] = ["ADDED", "UPDATED", "DELETED"];
export const baseVariant = "base";

/** Stored facts of an existing record. */
export interface KnownRecord {
  readonly dataHash: Uint8Array;
  readonly firstSeenMs: number;
  /** 0: not deleted. */
  readonly deletedMs: number;
}

/** A record to save. */
export interface NewRecord {
  readonly id: string;
  /** JSON with sorted keys. */
  readonly data: Buffer;
  readonly dataHash: Buffer;
}

const maxIdLength = 255;
/** The nesting that JSON readers accept by default. */
const maxDepth = 100;
/** A record and its envelope must fit into a message of 4 MiB. */
const maxRecordBytes = 3 * 1024 * 1024;
/** Limit: more than a person reads. */
const maxMistakes = 100;

/**
 * Reads records from a script; each has an ID that is text or a number, kept as text. If several share an ID, the last
 * one counts. Throws with all mistakes; then no record is saved.
 */
export function newRecords(items: readonly unknown[]): readonly NewRecord[] {
  return checked(items, (item) => {
    const id = idIn(item);
    if (typeof id !== "string") return id;
    const record = newRecord(id, item as JsonObject);
    return record ?? { path: [], message: `must be at most ${maxRecordBytes} bytes of JSON, ${maxDepth} deep` };
  });
}

/** Reads patches to merge into existing records. */
export function recordPatches(
  items: readonly unknown[],
): readonly { readonly id: string; readonly patch: JsonObject }[] {
  return checked(items, (item) => {
    const id = idIn(item);
    return typeof id === "string" ? { id, patch: item as JsonObject } : id;
  });
}

/** Reads the IDs of records; the items may be whole records. */
export function recordIds(items: readonly unknown[]): readonly string[] {
  const found = checked(items, (item) => {
    const id = isObject(item) ? idIn(item) : (idOf(item) ?? badId([]));
    return typeof id === "string" ? { id } : id;
  });
  return found.map(({ id }) => id);
}

function checked<T extends { readonly id: string }>(
  items: readonly unknown[],
  read: (item: unknown) => T | Mistake,
): readonly T[] {
  const byId = new Map<string, T>();
  const mistakes: Mistake[] = [];
  for (const [i, item] of items.entries()) {
    const one = read(item);
    if ("id" in one) byId.set(one.id, one);
    else if (mistakes.length < maxMistakes) mistakes.push({ ...one, path: [String(i), ...one.path] });
  }
  if (mistakes.length > 0) throw new Fault("invalid_body", "the records are not valid", { mistakes });
  return [...byId.values()];
}

function idIn(item: unknown): string | Mistake {
  if (!isObject(item)) return { path: [], message: "must be a JSON object" };
  return idOf(Object.hasOwn(item, "id") ? item["id"] : undefined) ?? badId(["id"]);
}

const badId = (path: readonly string[]): Mistake => ({
  path,
  message: `must be text of 1 to ${maxIdLength} characters, or a number`,
});

/** Returns an ID as it is stored: 7 and "7" are the same. Undefined if the value is not a valid ID. */
export function idOf(id: unknown): string | undefined {
  if (typeof id === "number") return Number.isFinite(id) ? String(id) : undefined;
  if (typeof id !== "string" || id === "" || id.length > maxIdLength || !id.isWellFormed()) return undefined;
  return id;
}

/** Returns undefined if the record is larger or deeper than can be stored. */
function newRecord(id: string, item: JsonObject): NewRecord | undefined {
  const text = canonicalJson(metadataField in item ? withoutMetadata(item) : item, maxDepth);
  if (text === undefined) return undefined;
  const data = Buffer.from(text);
  if (data.length > maxRecordBytes) return undefined;
  return { id, data, dataHash: hash("sha256", data, "buffer") };
}

function withoutMetadata({ [metadataField]: _, ...own }: JsonObject): JsonObject {
  return own;
}

/**
 * Returns the effect of saving a record. Undefined: unchanged, even if the stored data was pruned. A deleted record
 * counts as added again.
 */
export function effectOfSave(
  before: KnownRecord | undefined,
  { dataHash }: Pick<NewRecord, "dataHash">,
): "ADDED" | "UPDATED" | undefined {
  if (before === undefined || before.deletedMs > 0) return "ADDED";
  return dataHash.equals(before.dataHash) ? undefined : "UPDATED";
}

/**
 * Merges a patch into a record. A pruned record has no data left to merge into: its readers already have the rest, and
 * receive the patch.
 */
export function mergedRecord(id: string, data: Uint8Array, patch: JsonObject): NewRecord {
  // Our own bytes, written by newRecord.
  const before = data.length === 0 ? {} : (JSON.parse(Buffer.from(data).toString()) as JsonObject);
  const record = newRecord(id, mergedDeeply(before, patch));
  if (record !== undefined) return record;
  const message = `must be at most ${maxRecordBytes} bytes of JSON, ${maxDepth} deep, once it is merged`;
  throw new Fault("invalid_body", "the records are not valid", { mistakes: [{ path: [], message }] });
}

/** Merges objects field by field; any other value replaces the old one. */
export function mergedDeeply(before: JsonObject, patch: JsonObject): JsonObject {
  const merged = new Map<string, JsonValue>(Object.entries(before));
  for (const [key, value] of Object.entries(patch)) {
    const old = merged.get(key);
    merged.set(key, isObject(old) && isObject(value) ? mergedDeeply(old, value) : value);
  }
  // Built from entries, so that `__proto__` is an ordinary field.
  return Object.fromEntries(merged);
}

const maxNameLength = 255;

/** Checks the name of a model or variant, as keys and callers use it. */
export function nameMistake(name: string): string | undefined {
  if (name.length >= 1 && name.length <= maxNameLength && /^[^\p{Cc}\p{Cs}]+$/u.test(name)) return undefined;
  return `must be 1 to ${maxNameLength} characters, none of them a control character`;
}
