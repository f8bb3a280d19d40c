import { createIdArena, type IdArena } from "../lookup/id-arena.ts";
import { uuidOf, uuidWords } from "../lookup/uuid-words.ts";

/** A connection of the census: its number, its group and its ID. */
export interface CensusRow {
  readonly number: number;
  readonly group: number;
  readonly id: string;
}

/**
 * The connections of the census, sorted by their numbers, which grow with time. Typed arrays: an object for each of a
 * million connections would take five times the memory.
 */
export interface CensusRows {
  /** Adds a connection, or moves it to another group. Returns the group before; undefined if it is new. */
  put(row: CensusRow): number | undefined;
  /** Returns the group that the connection had; undefined if it is unknown. */
  remove(number: number): number | undefined;
  /** Returns the newest connections of the wanted groups whose number is below `before`, newest first. */
  newest(query: NewestRows): readonly CensusRow[];
  readonly count: number;
  readonly bytes: number;
}

export interface NewestRows {
  readonly before: number;
  readonly isWanted: (group: number) => boolean;
  readonly limit: number;
}

const width = 6;
const rowsPerChunk = 512;
// Word offsets of a row. Nearly all IDs are UUIDs, which four words hold; otherwise the first is the place of the text.
const groupWord = 1;
const idWord = 2;
/** Flag in the group's word: the ID is stored as text. */
const textBit = 0x80000000;

interface CensusChunk {
  readonly words: Uint32Array;
  count: number;
}

const newChunk = (): CensusChunk => ({ words: new Uint32Array(rowsPerChunk * width), count: 0 });
const numberAt = ({ words }: CensusChunk, at: number): number => words[at * width] ?? 0;
const groupAt = ({ words }: CensusChunk, at: number): number => ((words[at * width + groupWord] ?? 0) & ~textBit) >>> 0;

const hasText = ({ words }: CensusChunk, at: number): boolean => ((words[at * width + groupWord] ?? 0) & textBit) !== 0;

function idAt(chunk: CensusChunk, at: number, ids: IdArena): string {
  const { words } = chunk;
  const first = at * width + idWord;
  const word = words[first] ?? 0;
  if (hasText(chunk, at)) return ids.get(word);
  return uuidOf(word, words[first + 1] ?? 0, words[first + 2] ?? 0, words[first + 3] ?? 0);
}

type RowPlace = readonly [chunk: CensusChunk, at: number];

function insertRow([chunk, at]: RowPlace, { number, group, id }: CensusRow, ids: IdArena): void {
  const { words } = chunk;
  words.copyWithin((at + 1) * width, at * width, chunk.count * width);
  const uuid = uuidWords(id);
  words[at * width] = number;
  words[at * width + groupWord] = uuid === undefined ? group | textBit : group;
  words.set(uuid ?? [ids.put(id)], at * width + idWord);
  chunk.count += 1;
}

/** Returns the first place whose number is not below the wanted one. */
function placeOf(chunk: CensusChunk, number: number): number {
  let [low, high] = [0, chunk.count];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numberAt(chunk, middle) < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the last chunk that begins at or before the number; the first chunk if none does. */
function chunkOf(chunks: readonly CensusChunk[], number: number): number {
  let [low, high] = [0, chunks.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const chunk = chunks[middle];
    if (chunk !== undefined && numberAt(chunk, 0) <= number) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

export function createCensusRows(): CensusRows {
  const chunks: CensusChunk[] = [];
  const ids = createIdArena();
  let count = 0;

  function find(
    number: number,
  ): { readonly chunk: CensusChunk; readonly index: number; readonly at: number } | undefined {
    const index = chunkOf(chunks, number);
    const chunk = chunks[index];
    if (chunk === undefined) return undefined;
    const at = placeOf(chunk, number);
    return at < chunk.count && numberAt(chunk, at) === number ? { chunk, index, at } : undefined;
  }

  /** Makes room in a full chunk. New connections come last, so that their chunks are left full. */
  function split(index: number, chunk: CensusChunk, at: number): void {
    const next = newChunk();
    const kept = index === chunks.length - 1 && at === chunk.count ? chunk.count : chunk.count >>> 1;
    next.words.set(chunk.words.subarray(kept * width, chunk.count * width));
    next.count = chunk.count - kept;
    chunk.count = kept;
    chunks.splice(index + 1, 0, next);
  }

  /** Finds the chunk and the place for a new row, and makes room there. */
  function placeForNew(number: number): RowPlace {
    let index = chunkOf(chunks, number);
    let chunk = chunks[index];
    if (chunk === undefined) throw new Error("the census has no chunk");
    let at = placeOf(chunk, number);
    if (chunk.count < rowsPerChunk) return [chunk, at];
    split(index, chunk, at);
    if (at >= chunk.count) {
      at -= chunk.count;
      index += 1;
      chunk = chunks[index] ?? chunk;
    }
    return [chunk, at];
  }

  return {
    put(row) {
      if (chunks.length === 0) chunks.push(newChunk());
      const known = find(row.number);
      if (known === undefined) {
        insertRow(placeForNew(row.number), row, ids);
        count += 1;
        return undefined;
      }
      const { chunk, at } = known;
      const before = groupAt(chunk, at);
      const word = at * width + groupWord;
      chunk.words[word] = row.group | ((chunk.words[word] ?? 0) & textBit);
      return before;
    },
    remove(number) {
      const known = find(number);
      if (known === undefined) return undefined;
      const { chunk, at, index } = known;
      const before = groupAt(chunk, at);
      if (hasText(chunk, at)) ids.free(chunk.words[at * width + idWord] ?? 0);
      chunk.words.copyWithin(at * width, (at + 1) * width, chunk.count * width);
      chunk.count -= 1;
      count -= 1;
      if (chunk.count === 0) chunks.splice(index, 1);
      return before;
    },
    newest({ before, isWanted, limit }) {
      const found: CensusRow[] = [];
      if (chunks.length === 0) return found;
      for (let index = Number.isFinite(before) ? chunkOf(chunks, before) : chunks.length - 1; index >= 0; index -= 1) {
        const chunk = chunks[index];
        if (chunk === undefined) break;
        const end = Number.isFinite(before) ? placeOf(chunk, before) : chunk.count;
        for (let at = end - 1; at >= 0; at -= 1) {
          const group = groupAt(chunk, at);
          if (!isWanted(group)) continue;
          found.push({ number: numberAt(chunk, at), group, id: idAt(chunk, at, ids) });
          if (found.length === limit) return found;
        }
      }
      return found;
    },
    get count() {
      return count;
    },
    get bytes() {
      return chunks.length * rowsPerChunk * width * 4 + ids.bytes;
    },
  };
}
