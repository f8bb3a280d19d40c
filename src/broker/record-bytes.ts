import type { RecordPlace, StoredRecord } from "../gen/latchkey/stored/v1/stored_pb.ts";

/**
 * Records and their places as protobuf has them, byte for byte what `toBinary` writes. There are a thousand of each in
 * a commit, of the same few fields: written here into one buffer that is as long as it has to be, where the general
 * writer begins with a small one and takes a larger each time that it is full, they cost far less.
 */
export function recordBytes(record: StoredRecord): Buffer {
  const { id, data, lastAction, firstSeenMs, lastModifiedMs, deletedMs, prunedMs } = record;
  const [idBytes, actionBytes] = [Buffer.byteLength(id), Buffer.byteLength(lastAction)];
  const bytes = Buffer.allocUnsafe(lengthOf(idBytes) + lengthOf(data.length) + lengthOf(actionBytes) + 4 * doubleBytes);
  let at = writeText(bytes, 0, 1, id, idBytes);
  at = writeBytes(bytes, at, 2, data);
  at = writeText(bytes, at, 3, lastAction, actionBytes);
  at = writeDouble(bytes, at, 4, firstSeenMs);
  at = writeDouble(bytes, at, 5, lastModifiedMs);
  at = writeDouble(bytes, at, 6, deletedMs);
  return bytes.subarray(0, writeDouble(bytes, at, 7, prunedMs));
}

export function placeBytes({ sequence, dataHash, firstSeenMs, deletedMs }: RecordPlace): Buffer {
  const bytes = Buffer.allocUnsafe(lengthOf(0) + lengthOf(dataHash.length) + 2 * doubleBytes);
  let at = 0;
  // Places count the changes of a model, and are far from 2^53.
  if (sequence > 0n) at = writeVarint(bytes, writeTag(bytes, at, 1, varintType), Number(sequence));
  at = writeBytes(bytes, at, 2, dataHash);
  at = writeDouble(bytes, at, 3, firstSeenMs);
  return bytes.subarray(0, writeDouble(bytes, at, 4, deletedMs));
}

const varintType = 0;
const doubleType = 1;
const lengthType = 2;
/** The most that a field takes beside its content: a tag and a number, or a number alone. */
const lengthOf = (content: number) => 1 + 8 + content;
const doubleBytes = 1 + 8;

function writeTag(bytes: Buffer, at: number, field: number, type: number): number {
  bytes[at] = (field << 3) | type;
  return at + 1;
}

function writeVarint(bytes: Buffer, from: number, value: number): number {
  let at = from;
  let left = value;
  for (; left > 127; left = Math.floor(left / 128)) {
    bytes[at] = (left % 128) | 128;
    at += 1;
  }
  bytes[at] = left;
  return at + 1;
}

// What is empty or zero is not there.

function writeText(bytes: Buffer, at: number, field: number, text: string, length: number): number {
  if (length === 0) return at;
  const from = writeVarint(bytes, writeTag(bytes, at, field, lengthType), length);
  return from + bytes.write(text, from);
}

function writeBytes(bytes: Buffer, at: number, field: number, content: Uint8Array): number {
  if (content.length === 0) return at;
  const from = writeVarint(bytes, writeTag(bytes, at, field, lengthType), content.length);
  bytes.set(content, from);
  return from + content.length;
}

function writeDouble(bytes: Buffer, at: number, field: number, value: number): number {
  return value === 0 ? at : bytes.writeDoubleLE(value, writeTag(bytes, at, field, doubleType));
}
