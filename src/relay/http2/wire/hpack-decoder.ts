import { ConnectionError, errorCodes } from "./error-codes.ts";
import { isFieldName, isFieldValue } from "./field-bytes.ts";
import { fieldBytes, HpackTable, maxTableBytes } from "./hpack-table.ts";
import { decodeHuffman } from "./huffman.ts";
import { staticTable } from "./static-table.ts";

/** The fields of one field block. */
export interface FieldBlock {
  /** Name, value, name, value; latin1. */
  readonly fields: string[];
  /** A name or value has bytes that it must not have (RFC 9113, 8.2.1). */
  isMalformed: boolean;
  /** There are more fields, or longer ones, than allowed: some are missing from `fields`. */
  isTooLarge: boolean;
}

interface DecoderLimits {
  readonly maxFields: number;
  /** Bytes of names and values, with 32 for each field (RFC 9113, 6.5.2). */
  readonly maxListBytes: number;
}

interface DecodedEntry {
  readonly name: string;
  readonly value: string;
  readonly isMalformed: boolean;
  readonly bytes: number;
}

const fixed: readonly DecodedEntry[] = staticTable.map(([name, value]) => ({
  name,
  value,
  isMalformed: false,
  bytes: fieldBytes(name, value),
}));

/**
 * Decodes the field blocks of a connection (RFC 7541). Every block of a connection has to be decoded, in order: an
 * error is an error of the whole connection.
 */
export class HpackDecoder extends HpackTable<DecodedEntry> {
  readonly #limits: DecoderLimits;
  #source: Buffer = Buffer.alloc(0);
  #at = 0;
  #end = 0;
  #listBytes = 0;
  #isTextMalformed = false;

  constructor(limits: DecoderLimits) {
    super();
    this.#limits = limits;
  }

  /** Throws `ConnectionError` for a malformed block. */
  decode(source: Buffer, from: number, to: number): FieldBlock {
    const block: FieldBlock = { fields: [], isMalformed: false, isTooLarge: false };
    this.#source = source;
    this.#at = from;
    this.#end = to;
    this.#listBytes = 0;
    let mayResize = true;
    while (this.#at < this.#end) {
      const first = source[this.#at] as number;
      if (first >= 0x80) {
        this.#emit(block, this.#entryAt(this.#integer(7)));
      } else if (first >= 0x40) {
        const entry = this.#literal(6);
        this.add(entry);
        this.#emit(block, entry);
      } else if (first >= 0x20) {
        if (!mayResize) throw malformed("a table size update follows a field");
        this.#resize(this.#integer(5));
        continue;
      } else {
        this.#emit(block, this.#literal(4));
      }
      mayResize = false;
    }
    return block;
  }

  #emit(block: FieldBlock, { name, value, isMalformed, bytes }: DecodedEntry): void {
    this.#listBytes += bytes;
    if (isMalformed) block.isMalformed = true;
    if (this.#listBytes > this.#limits.maxListBytes || block.fields.length >= 2 * this.#limits.maxFields) {
      block.isTooLarge = true;
      return;
    }
    block.fields.push(name, value);
  }

  #entryAt(index: number): DecodedEntry {
    const known = index <= fixed.length ? fixed[index - 1] : this.dynamicAt(index - fixed.length);
    if (known === undefined) throw malformed("an index is beyond the tables");
    return known;
  }

  #literal(prefixBits: number): DecodedEntry {
    const index = this.#integer(prefixBits);
    let name: string;
    let isMalformed = false;
    if (index === 0) {
      name = this.#text(isFieldName);
      isMalformed = this.#isTextMalformed;
    } else {
      const named = this.#entryAt(index);
      name = named.name;
      // The entry's value may be its fault, but nothing honest refers to such an entry.
      isMalformed = named.isMalformed;
    }
    const value = this.#text(isFieldValue);
    return { name, value, isMalformed: isMalformed || this.#isTextMalformed, bytes: fieldBytes(name, value) };
  }

  #text(isValid: (bytes: Uint8Array, from: number, to: number) => boolean): string {
    const source = this.#source;
    if (this.#at >= this.#end) throw malformed("a field block ends within a field");
    const isHuffman = (source[this.#at] as number) >= 0x80;
    const length = this.#integer(7);
    const from = this.#at;
    const to = from + length;
    if (to > this.#end) throw malformed("a field block ends within a field");
    this.#at = to;
    if (!isHuffman) {
      this.#isTextMalformed = !isValid(source, from, to);
      return length === 0 ? "" : source.toString("latin1", from, to);
    }
    const decoded = decodeHuffman(source, from, to);
    if (decoded === undefined) throw malformed("a field has malformed Huffman code");
    this.#isTextMalformed = !isValid(decoded, 0, decoded.length);
    return decoded.toString("latin1");
  }

  /** RFC 7541, 5.1. The integers of a block fit in 28 bits. */
  #integer(prefixBits: number): number {
    const source = this.#source;
    const most = (1 << prefixBits) - 1;
    let value = (source[this.#at] as number) & most;
    this.#at += 1;
    if (value < most) return value;
    for (let shift = 0; shift <= 21; shift += 7) {
      if (this.#at >= this.#end) throw malformed("a field block ends within an integer");
      const byte = source[this.#at] as number;
      this.#at += 1;
      value += (byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw malformed("an integer is too large");
  }

  #resize(capacity: number): void {
    if (capacity > maxTableBytes) throw malformed("the table would be larger than allowed");
    this.setCapacity(capacity);
  }
}

const malformed = (message: string) => new ConnectionError(errorCodes.compressionError, message);
