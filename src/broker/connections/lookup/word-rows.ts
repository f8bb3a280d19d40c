/**
 * Rows of 32-bit words, numbered from 1, for millions of small entries without an object each. Freed rows are reused.
 * Storage grows by one chunk at a time, so nothing is ever copied.
 */
export interface WordRows {
  /** Allocates a row with all words 0. */
  take(): number;
  give(row: number): void;
  get(row: number, word: number): number;
  set(row: number, word: number, value: number): void;
  /** The number of allocated rows. */
  readonly count: number;
  readonly bytes: number;
}

const rowBits = 13;
const rowsPerChunk = 1 << rowBits;
const rowMask = rowsPerChunk - 1;

export function createWordRows(width: number): WordRows {
  const chunks: Uint32Array[] = [];
  /** The first row never allocated. */
  let end = 1;
  /** The row freed last; its first word holds the row freed before. */
  let free = 0;
  let count = 0;

  const get = (row: number, word: number): number => chunks[row >>> rowBits]?.[(row & rowMask) * width + word] ?? 0;
  function set(row: number, word: number, value: number): void {
    const chunk = chunks[row >>> rowBits];
    if (chunk !== undefined) chunk[(row & rowMask) * width + word] = value;
  }

  return {
    get,
    set,
    take() {
      count += 1;
      if (free === 0) {
        if (end >>> rowBits >= chunks.length) chunks.push(new Uint32Array(rowsPerChunk * width));
        end += 1;
        return end - 1;
      }
      const row = free;
      free = get(row, 0);
      set(row, 0, 0);
      return row;
    },
    give(row) {
      count -= 1;
      if (count === 0) {
        chunks.length = 0;
        end = 1;
        free = 0;
        return;
      }
      for (let word = 1; word < width; word += 1) set(row, word, 0);
      set(row, 0, free);
      free = row;
    },
    get count() {
      return count;
    },
    get bytes() {
      return chunks.length * rowsPerChunk * width * 4;
    },
  };
}
