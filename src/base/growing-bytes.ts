const firstBytes = 1_024;

/** Bytes that come in pieces, in one buffer. A piece costs as much as its own bytes, however many came before it. */
export class GrowingBytes {
  #room = Buffer.allocUnsafe(firstBytes);
  #length = 0;

  add(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#room.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#room.length));
      this.#room.copy(larger, 0, 0, this.#length);
      this.#room = larger;
    }
    this.#room.set(piece, this.#length);
    this.#length = length;
  }

  /** All of them. The next piece may replace the buffer. */
  get bytes(): Buffer {
    return this.#room.subarray(0, this.#length);
  }
}
