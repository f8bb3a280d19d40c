/**
 * Caches what readers derive from a repeated object, stored with the object. A weak map takes 0.1 µs for each lookup,
 * and a proxied request would need five. Uses separate fields: a list would add two memory accesses, 0.1 µs each when
 * a thousand objects alternate.
 */
export class Memo {
  n0: unknown = undefined;
  n1: unknown = undefined;
  n2: unknown = undefined;
  n3: unknown = undefined;
  n4: unknown = undefined;
  n5: unknown = undefined;
  n6: unknown = undefined;
  n7: unknown = undefined;
  /** Further kinds; a sidecar has fewer kinds than fields. */
  more: unknown[] | undefined = undefined;

  forget(): void {
    for (const field of fields) this[field] = undefined;
    this.more = undefined;
  }
}

/** A kind of cached value. */
export interface Note<T> {
  of(memo: Memo): T | undefined;
  keep(memo: Memo, made: T): T;
}

const fields = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"] as const;
let kinds = 0;

export function createNote<T>(): Note<T> {
  const at = kinds;
  kinds += 1;
  const field = fields[at];
  // The field belongs to this memo, so the value has its type.
  if (field !== undefined) {
    return { of: readers[at] as Note<T>["of"], keep: (memo, made) => (memo[field] = made) };
  }
  return {
    of: ({ more }) => more?.[at] as T | undefined,
    keep(memo, made) {
      memo.more ??= [];
      memo.more[at] = made;
      return made;
    },
  };
}

/** A separate function for each field: with a computed name, a lookup would take as long as in a list. */
const readers: readonly ((memo: Memo) => unknown)[] = [
  ({ n0 }) => n0,
  ({ n1 }) => n1,
  ({ n2 }) => n2,
  ({ n3 }) => n3,
  ({ n4 }) => n4,
  ({ n5 }) => n5,
  ({ n6 }) => n6,
  ({ n7 }) => n7,
];
