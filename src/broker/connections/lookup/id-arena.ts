/**
 * Stores short texts as bytes, in chunks: as strings, each would take at least 60 bytes. Freed space is reused by texts
 * of about the same length.
 */
export interface IdArena {
  /** Stores an ID of 1 to 255 bytes of UTF-8. Returns the number to find the ID by, which is never 0. */
  put(id: string): number;
  get(at: number): string;
  free(at: number): void;
  readonly bytes: number;
}

const unitBytes = 4;
const unitBits = 16;
/** 256 KiB a chunk. */
const unitsPerChunk = 1 << unitBits;
const unitMask = unitsPerChunk - 1;

export function createIdArena(): IdArena {
  const chunks: Buffer[] = [];
  /** The first unit never used; unit 0 is reserved for "none". */
  let end = 1;
  let count = 0;
  /** The unit freed last, for each length in units. Its first four bytes hold the unit freed before. */
  const free = new Uint32Array(1 + Math.ceil(256 / unitBytes));

  function take(units: number): number {
    const freed = free[units] ?? 0;
    if (freed !== 0) {
      free[units] = bufferOf(freed).readUInt32LE(offsetOf(freed));
      return freed;
    }
    // No text spans two chunks.
    if ((end & unitMask) + units > unitsPerChunk) end = (end | unitMask) + 1;
    if (end >>> unitBits >= chunks.length) chunks.push(Buffer.alloc(unitsPerChunk * unitBytes));
    end += units;
    return end - units;
  }

  function bufferOf(at: number): Buffer {
    const chunk = chunks[at >>> unitBits];
    if (chunk === undefined) throw new Error("no ID is stored at this number");
    return chunk;
  }
  const offsetOf = (at: number): number => (at & unitMask) * unitBytes;
  const unitsFor = (bytes: number): number => Math.ceil((1 + bytes) / unitBytes);

  return {
    put(id) {
      const length = Buffer.byteLength(id);
      if (length < 1 || length > 255) throw new Error("an ID must have 1 to 255 bytes");
      count += 1;
      const at = take(unitsFor(length));
      const chunk = bufferOf(at);
      const offset = offsetOf(at);
      chunk[offset] = length;
      chunk.write(id, offset + 1, length, "utf8");
      return at;
    },
    get(at) {
      const chunk = bufferOf(at);
      const begin = offsetOf(at) + 1;
      const length = chunk[begin - 1] ?? 0;
      return chunk.toString("utf8", begin, begin + length);
    },
    free(at) {
      count -= 1;
      if (count === 0) {
        chunks.length = 0;
        end = 1;
        free.fill(0);
        return;
      }
      const chunk = bufferOf(at);
      const length = chunk[offsetOf(at)] ?? 0;
      const units = unitsFor(length);
      chunk.writeUInt32LE(free[units] ?? 0, offsetOf(at));
      free[units] = at;
    },
    get bytes() {
      return chunks.length * unitsPerChunk * unitBytes;
    },
  };
}
