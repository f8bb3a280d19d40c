/**
 * What its readers have made of a thing that comes again, kept with it so that nobody has to look it up: a weak map
 * finds the same in 0.1 µs, and a proxied request would ask five of them.
 */
export class Memo {
  readonly notes: unknown[] = [];
}

/** One kind of what is kept. */
export interface Note<T> {
  of(memo: Memo): T | undefined;
  keep(memo: Memo, made: T): T;
}

let kinds = 0;

export function createNote<T>(): Note<T> {
  const at = kinds;
  kinds += 1;
  return {
    // What lies there, this one has put there.
    of: ({ notes }) => notes[at] as T | undefined,
    keep({ notes }, made) {
      notes[at] = made;
      return made;
    },
  };
}
