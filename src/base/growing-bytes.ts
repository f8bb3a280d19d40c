const firstBytes = 1_024;

/** Collects pieces in one buffer. Adding a piece costs only its own bytes, however many came before. */
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

  /** Returns all bytes. The next piece may replace the buffer. */
  get bytes(): Buffer {
    return this.#room.subarray(0, this.#length);
  }
}
