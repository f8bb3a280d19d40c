/**
 * NUL separates the parts of store keys. No record has a NUL in its name, so a lookup of such a name finds no record.
 */
export const namesNothing = (...names: readonly string[]): boolean => names.some((name) => name.includes("\0"));
