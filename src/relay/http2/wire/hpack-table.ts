/** An entry of a dynamic table. */
interface TableEntry {
  /** RFC 7541, 4.1. */
  readonly bytes: number;
}

/** SETTINGS_HEADER_TABLE_SIZE, ours and the most of the peer's that is used: the default (RFC 9113, 6.5.2). */
export const maxTableBytes = 4_096;
const entryOverhead = 32;
/** A power of two, and as many as fit in the table. */
const maxEntries = maxTableBytes / entryOverhead;

/** Bytes of a field in a table, and in a list of fields (RFC 7541, 4.1). */
export const fieldBytes = (name: string, value: string): number => name.length + value.length + entryOverhead;

/**
 * The dynamic table of HPACK (RFC 7541, 2.3.2), as a ring. A base class rather than an object of its own: a request
 * looks at fewer places in memory.
 */
export abstract class HpackTable<E extends TableEntry> {
  readonly #ring: (E | undefined)[] = new Array(maxEntries).fill(undefined);
  /** Counts every entry that was ever added. */
  #added = 0;
  #count = 0;
  #bytes = 0;
  #capacity = maxTableBytes;

  protected get capacity(): number {
    return this.#capacity;
  }

  protected get entries(): number {
    return this.#count;
  }

  /** The newest entry has index 1. */
  protected dynamicAt(index: number): E | undefined {
    return index > this.#count ? undefined : this.#ring[(this.#added - index) & (maxEntries - 1)];
  }

  protected add(entry: E): void {
    const { bytes } = entry;
    // RFC 7541, 4.4: an entry larger than the table empties the table.
    this.#evictTo(this.#capacity - bytes);
    if (bytes > this.#capacity) return;
    this.#ring[this.#added & (maxEntries - 1)] = entry;
    this.#added += 1;
    this.#count += 1;
    this.#bytes += bytes;
  }

  protected setCapacity(capacity: number): void {
    this.#capacity = capacity;
    this.#evictTo(capacity);
  }

  #evictTo(bytes: number): void {
    while (this.#count > 0 && this.#bytes > bytes) {
      const at = (this.#added - this.#count) & (maxEntries - 1);
      const oldest = this.#ring[at];
      this.#ring[at] = undefined;
      this.#count -= 1;
      this.#bytes -= oldest?.bytes ?? 0;
    }
  }
}
