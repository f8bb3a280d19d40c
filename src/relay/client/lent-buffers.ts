/** Lent buffers that are being written to a client. */
export class LentBuffers {
  /** Few: each response has two buffers. */
  readonly #unwritten: (() => void)[] = [];

  /** Returns the callback of the write, which releases the buffer. */
  add(release: () => void): () => void {
    const giveBack = () => {
      const at = this.#unwritten.indexOf(giveBack);
      if (at === -1) return;
      this.#unwritten.splice(at, 1);
      release();
    };
    this.#unwritten.push(giveBack);
    return giveBack;
  }

  /** Releases the buffers that will not be written any more: a socket may drop them without a callback. */
  releaseAll(): void {
    for (const giveBack of [...this.#unwritten]) giveBack();
  }
}
