const maxNames = 4_096;
const maxNameLength = 64;

/**
 * Caches a value for each header name. Names repeat from request to request: each is lower-cased and judged once.
 * Bounded, because clients choose the names.
 */
export function byFieldName<T>(judge: (lower: string, name: string) => T): (name: string) => T {
  const judged = new Map<string, T>();
  return (name) => {
    const known = judged.get(name);
    if (known !== undefined) return known;
    if (judged.size === maxNames || name.length > maxNameLength) return judge(name.toLowerCase(), name);
    // A part of a text would keep the whole text, here the head of a request, in memory.
    const own = name.split("").join("");
    const made = judge(own.toLowerCase(), own);
    judged.set(own, made);
    return made;
  };
}

export const lowerCase = byFieldName((lower) => lower);

/** Returns one text for all equal names: the lookups of the others then compare no characters. */
export const sharedName = byFieldName((lower, name): { readonly name: string; readonly lower: string } => ({
  name,
  lower,
}));

/**
 * Finds the few header names with a meaning directly in the text of a head: no name is copied or hashed. The text is
 * known to be a name: letters, and signs without upper or lower case.
 */
export class FieldNames<T> {
  readonly #byLength: (NamedField<T>[] | undefined)[] = [];

  constructor(meanings: Iterable<readonly [lower: string, meaning: T]>) {
    for (const [lower, meaning] of meanings) {
      const alike = this.#byLength[lower.length] ?? [];
      alike.push({ lower, meaning });
      this.#byLength[lower.length] = alike;
    }
  }

  /** Returns the meaning of the name between two positions. */
  at(text: string, from: number, to: number): T | undefined {
    const alike = this.#byLength[to - from];
    if (alike === undefined) return undefined;
    for (let i = 0; i < alike.length; i += 1) {
      const one = alike[i];
      if (one !== undefined && isAt(text, from, one.lower)) return one.meaning;
    }
    return undefined;
  }
}

interface NamedField<T> {
  readonly lower: string;
  readonly meaning: T;
}

/** Whether it stands there, in whatever case. */
export function isAt(text: string, from: number, lower: string): boolean {
  for (let i = 0; i < lower.length; i += 1) {
    // Bit 0x20 lower-cases letters; a hyphen has the bit already.
    if ((text.charCodeAt(from + i) | 0x20) !== lower.charCodeAt(i)) return false;
  }
  return true;
}
