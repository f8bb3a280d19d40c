const maxNames = 4_096;
const maxNameLength = 64;

/**
 * What is to be known of the name of an HTTP field. Names repeat from request to request: each is folded and looked
 * at once. Bounded, because strangers choose them.
 */
export function byFieldName<T>(judge: (lower: string) => T): (name: string) => T {
  const judged = new Map<string, T>();
  return (name) => {
    const known = judged.get(name);
    if (known !== undefined) return known;
    const made = judge(name.toLowerCase());
    if (judged.size < maxNames && name.length <= maxNameLength) judged.set(name, made);
    return made;
  };
}

export const lowerCase = byFieldName((lower) => lower);
