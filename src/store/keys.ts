/** A key made of parts. No part holds NUL, so joined parts cannot collide, and sort as tuples do. */
export function keyOf(...parts: readonly string[]): string {
  for (const part of parts) {
    if (part.includes("\0")) throw new Error("a part of a key holds NUL");
  }
  return parts.join("\0");
}

/** The keys whose first parts are these. */
export function under(...parts: readonly string[]): { readonly from: string; readonly to: string } {
  const prefix = keyOf(...parts);
  return { from: `${prefix}\0`, to: `${prefix}\x01` };
}

export const partsOf = (key: string): string[] => key.split("\0");

/** The first key after this one. */
export const after = (key: string): string => `${key}\0`;
