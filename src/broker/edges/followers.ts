import type { EdgeStream } from "./edge-stream.ts";

/** The streams that follow each subject, so that a change costs nothing for all others. */
export class Followers {
  readonly #streams = new Map<string, Set<EdgeStream>>();

  add(subject: string, stream: EdgeStream): void {
    const known = this.#streams.get(subject);
    if (known === undefined) this.#streams.set(subject, new Set([stream]));
    else known.add(stream);
  }

  delete(subject: string, stream: EdgeStream): void {
    const known = this.#streams.get(subject);
    if (known?.delete(stream) === true && known.size === 0) this.#streams.delete(subject);
  }

  of(subject: string): Iterable<EdgeStream> {
    return this.#streams.get(subject) ?? [];
  }

  has(subject: string): boolean {
    return this.#streams.has(subject);
  }

  subjects(): Iterable<string> {
    return this.#streams.keys();
  }
}
