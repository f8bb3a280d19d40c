/** Joins parts to a key. No part contains NUL, so joined parts cannot collide, and they sort like tuples. */
export function keyOf(...parts: readonly string[]): string {
  for (const part of parts) if (part.includes("\0")) throw new Error("a part of a key contains NUL");
  return parts.join("\0");
}

/** The range of keys that begin with these parts. */
export function under(...parts: readonly string[]): { readonly from: string; readonly to: string } {
  const prefix = keyOf(...parts);
  return { from: `${prefix}\0`, to: `${prefix}\x01` };
}

export const partsOf = (key: string): string[] => key.split("\0");

/** The next possible key. */
export const after = (key: string): string => `${key}\0`;
