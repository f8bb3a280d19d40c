import { fieldBytes, HpackTable, maxTableBytes } from "./hpack-table.ts";
import { staticTable } from "./static-table.ts";

interface KnownName {
  readonly name: string;
  /** Index in the static table; 0: the name is not there. */
  readonly index: number;
  /** Indexes of the name with a value. */
  readonly values: ReadonlyMap<string, number>;
  readonly isIndexed: boolean;
}

interface EncodedEntry {
  readonly known: KnownName;
  readonly value: string;
  readonly bytes: number;
}

/**
 * Names whose values are added to the dynamic table. A session carries many users' requests, so that compression must
 * not reveal anything of one to another (RFC 7541, 7.1): these values tell programs apart, not users.
 */
const indexedNames = [
  ":authority",
  ...["accept", "accept-encoding", "accept-language", "cache-control", "content-encoding", "content-type", "date"],
  ...["grpc-accept-encoding", "grpc-encoding", "server", "te", "user-agent", "vary", "via", "x-goog-api-client"],
  ...["grpc-status", "strict-transport-security", "x-content-type-options"],
];
/** Longer values are sent as they are. */
const maxIndexedValue = 256;

const knownNames = new Map<string, KnownName>();
for (const name of [...staticTable.map(([listed]) => listed), ...indexedNames]) {
  if (knownNames.has(name)) continue;
  const index = staticTable.findIndex(([listed]) => listed === name) + 1;
  const values = new Map<string, number>();
  staticTable.forEach(([listed, value], i) => {
    if (listed === name && value !== "") values.set(value, i + 1);
  });
  knownNames.set(name, { name, index, values, isIndexed: indexedNames.includes(name) });
}

/**
 * Encodes the field blocks of a connection (RFC 7541). Strings are not Huffman-coded: bytes cost less here than the
 * work. Every encoded block must be sent, in order.
 */
export class HpackEncoder extends HpackTable<EncodedEntry> {
  /** The smallest size since the last block, and whether the peer has to learn of a new size (RFC 7541, 4.2). */
  #smallest = maxTableBytes;
  #isResized = false;
  #out: Buffer = Buffer.alloc(0);
  #at = 0;

  /** The peer's SETTINGS_HEADER_TABLE_SIZE. */
  resize(allowed: number): void {
    const capacity = Math.min(allowed, maxTableBytes);
    if (capacity === this.capacity) return;
    this.#smallest = Math.min(this.#smallest, capacity);
    this.#isResized = true;
    this.setCapacity(capacity);
  }

  /** Begins a block. `out` must have room for all of its fields: see `bytesFor`. */
  begin(out: Buffer, at: number): void {
    this.#out = out;
    this.#at = at;
    if (!this.#isResized) return;
    if (this.#smallest < this.capacity) this.#integer(0x20, 5, this.#smallest);
    this.#integer(0x20, 5, this.capacity);
    this.#isResized = false;
    this.#smallest = this.capacity;
  }

  /** Returns where the block ends. */
  end(): number {
    return this.#at;
  }

  /** The name is in lower case; both are latin1. A sensitive value is marked so that no hop ever indexes it. */
  field(name: string, value: string, isSensitive: boolean): void {
    const known = knownNames.get(name);
    if (isSensitive) {
      this.#literal(0x10, 4, known?.index ?? 0, name, value);
      return;
    }
    if (known === undefined) {
      this.#literal(0, 4, 0, name, value);
      return;
    }
    const index = known.values.get(value) ?? (known.isIndexed ? this.#find(known, value) : 0);
    if (index !== 0) {
      this.#integer(0x80, 7, index);
    } else if (known.isIndexed && value.length <= maxIndexedValue && this.capacity > 0) {
      this.#literal(0x40, 6, known.index, name, value);
      this.add({ known, value, bytes: fieldBytes(name, value) });
    } else {
      this.#literal(0, 4, known.index, name, value);
    }
  }

  #find(known: KnownName, value: string): number {
    for (let back = 1; back <= this.entries; back += 1) {
      const entry = this.dynamicAt(back);
      if (entry !== undefined && entry.known === known && entry.value === value) return staticTable.length + back;
    }
    return 0;
  }

  #literal(pattern: number, prefixBits: number, index: number, name: string, value: string): void {
    this.#integer(pattern, prefixBits, index);
    if (index === 0) this.#text(name);
    this.#text(value);
  }

  #text(text: string): void {
    const { length } = text;
    this.#integer(0, 7, length);
    const out = this.#out;
    if (length > 16) {
      out.write(text, this.#at, "latin1");
    } else {
      for (let i = 0; i < length; i += 1) out[this.#at + i] = text.charCodeAt(i);
    }
    this.#at += length;
  }

  #integer(pattern: number, prefixBits: number, value: number): void {
    const out = this.#out;
    const most = (1 << prefixBits) - 1;
    if (value < most) {
      out[this.#at] = pattern | value;
      this.#at += 1;
      return;
    }
    out[this.#at] = pattern | most;
    this.#at += 1;
    let rest = value - most;
    for (; rest >= 128; rest >>= 7) {
      out[this.#at] = (rest & 127) | 128;
      this.#at += 1;
    }
    out[this.#at] = rest;
    this.#at += 1;
  }
}

/** Bytes that a size update of the table, and the index and lengths of a field, take at most. */
const mostPerField = 16;

/** The most bytes that these fields take: name, value, name, value. */
export function bytesFor(fields: readonly string[]): number {
  let bytes = mostPerField;
  for (let i = 0; i < fields.length; i += 1) bytes += (fields[i]?.length ?? 0) + mostPerField / 2;
  return bytes;
}
