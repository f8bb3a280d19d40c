/**
 * Encodes arrays in the server's binary format (`array_recv` in arrayfuncs.c). pg would send text, with bytes in quoted
 * hexadecimal: twice the size, and parsed character by character.
 */
type Type = keyof typeof oids;
/** `pg_type.dat` */
const oids = { bytea: 17, bigint: 20, integer: 23 } as const;
const emptyBytes = 12;
const headerBytes = 20;
const isNull = -1;

export function byteaArray(items: readonly (Uint8Array | undefined)[]): Buffer {
  const length = items.reduce((sum, item) => sum + (item?.length ?? 0), 0);
  return arrayOf("bytea", items, length, (bytes, item, at) => {
    bytes.set(item, at);
    return item.length;
  });
}

export const integerArray = (items: readonly number[]): Buffer =>
  arrayOf("integer", items, 4 * items.length, (bytes, item, at) => bytes.writeInt32BE(item, at) - at);

export const bigintArray = (items: readonly (number | undefined)[]): Buffer =>
  arrayOf("bigint", items, 8 * items.length, (bytes, item, at) => bytes.writeBigInt64BE(BigInt(item), at) - at);

/** `write` returns the number of bytes written; the total is at most `length`. */
function arrayOf<T>(
  type: Type,
  items: readonly (T | undefined)[],
  length: number,
  write: (bytes: Buffer, item: T, at: number) => number,
): Buffer {
  if (items.length === 0) {
    const empty = Buffer.alloc(emptyBytes);
    empty.writeInt32BE(oids[type], 8);
    return empty;
  }
  const bytes = Buffer.allocUnsafe(headerBytes + 4 * items.length + length);
  bytes.writeInt32BE(1, 0); // dimensions
  bytes.writeInt32BE(items.includes(undefined) ? 1 : 0, 4);
  bytes.writeInt32BE(oids[type], 8);
  bytes.writeInt32BE(items.length, 12);
  bytes.writeInt32BE(1, 16); // the first index
  let at = headerBytes;
  for (const item of items) {
    const start = at + 4;
    const written = item === undefined ? 0 : write(bytes, item, start);
    bytes.writeInt32BE(item === undefined ? isNull : written, at);
    at = start + written;
  }
  return bytes.subarray(0, at);
}
