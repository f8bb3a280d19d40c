import { hash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault, type Mistake } from "../../base/fault.ts";
import { canonicalJson } from "../dialect/canonical-json.ts";
import { isObject } from "../dialect/json-fields.ts";

/** What readers are told of a record. Where somebody else's documents call it `_nango_metadata`, so do we. */
export const metadataField = "_nango_metadata";
export type RecordAction = "ADDED" | "UPDATED" | "DELETED";
export const recordActions: readonly RecordAction[] = ["ADDED", "UPDATED", "DELETED"];
export const baseVariant = "base";

/** What is known of a record that is there. */
export interface KnownRecord {
  readonly dataHash: Uint8Array;
  readonly firstSeenMs: number;
  /** 0: it is not. */
  readonly deletedMs: number;
}

/** A record as it is to be saved. */
export interface NewRecord {
  readonly id: string;
  /** JSON with its keys sorted. */
  readonly data: Buffer;
  readonly dataHash: Buffer;
}

const maxIdLength = 255;
/** As deep as readers of JSON go who were not told otherwise. */
const maxDepth = 100;
/** One record and what stands around it are a message of 4 MiB at most. */
const maxRecordBytes = 3 * 1024 * 1024;
/** As many as a person reads. */
const maxMistakes = 100;

/**
 * Records as a script gives them, each with an id that is text or a number, kept as text. Of several with one id the
 * last counts. Throws with all that is wrong, or saves nothing of it.
 */
export function newRecords(items: readonly unknown[]): readonly NewRecord[] {
  return checked(items, (item) => {
    const id = idIn(item);
    if (typeof id !== "string") return id;
    const record = newRecord(id, item as JsonObject);
    return record ?? { path: [], message: `must be at most ${maxRecordBytes} bytes of JSON, ${maxDepth} deep` };
  });
}

/** What is to be merged into records that are there. */
export function recordPatches(
  items: readonly unknown[],
): readonly { readonly id: string; readonly patch: JsonObject }[] {
  return checked(items, (item) => {
    const id = idIn(item);
    return typeof id === "string" ? { id, patch: item as JsonObject } : id;
  });
}

/** The ids of records, which may be given whole. */
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

/** An id as it is kept: 7 and "7" are the same. Undefined: it is none. */
export function idOf(id: unknown): string | undefined {
  if (typeof id === "number") return Number.isFinite(id) ? String(id) : undefined;
  if (typeof id !== "string" || id === "" || id.length > maxIdLength || !id.isWellFormed()) return undefined;
  return id;
}

/** Undefined: larger or deeper than can be kept. */
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
 * What comes of saving it. Undefined: nothing, since it is there already, be it that its data was pruned. One that
 * was deleted is new again.
 */
export function saved(
  before: KnownRecord | undefined,
  { dataHash }: Pick<NewRecord, "dataHash">,
): "ADDED" | "UPDATED" | undefined {
  if (before === undefined || before.deletedMs > 0) return "ADDED";
  return dataHash.equals(before.dataHash) ? undefined : "UPDATED";
}

/**
 * A record with a part of it changed. Of one that was pruned there is nothing left to merge into: its readers have
 * the rest, and get what is new.
 */
export function mergedRecord(id: string, data: Uint8Array, patch: JsonObject): NewRecord {
  // Our own bytes: newRecord has written them.
  const before = data.length === 0 ? {} : (JSON.parse(Buffer.from(data).toString()) as JsonObject);
  const record = newRecord(id, mergedDeeply(before, patch));
  if (record !== undefined) return record;
  const message = `must be at most ${maxRecordBytes} bytes of JSON, ${maxDepth} deep, once it is merged`;
  throw new Fault("invalid_body", "the records are not valid", { mistakes: [{ path: [], message }] });
}

/** Objects are merged field by field; anything else takes the place of what was there. */
export function mergedDeeply(before: JsonObject, patch: JsonObject): JsonObject {
  const merged = new Map<string, JsonValue>(Object.entries(before));
  for (const [key, value] of Object.entries(patch)) {
    const old = merged.get(key);
    merged.set(key, isObject(old) && isObject(value) ? mergedDeeply(old, value) : value);
  }
  // A field may be called `__proto__`: here it is one like any other.
  return Object.fromEntries(merged);
}

const maxNameLength = 255;

/** A model, or a variant of it, as keys and callers name it. */
export function nameMistake(name: string): string | undefined {
  if (name.length >= 1 && name.length <= maxNameLength && /^[^\p{Cc}\p{Cs}]+$/u.test(name)) return undefined;
  return `must be 1 to ${maxNameLength} characters, none of them a control character`;
}
