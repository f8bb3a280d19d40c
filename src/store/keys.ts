/** A key made of parts. No part holds NUL, so joined parts cannot collide, and sort as tuples do. */
export function keyOf(...parts: readonly string[]): string {
  let key = "";
  for (let i = 0; i < parts.length; i += 1) {
    const part = parts[i] ?? "";
    if (part.includes("\0")) throw new Error("a part of a key holds NUL");
    key = i === 0 ? part : `${key}\0${part}`;
  }
  return key;
}

/** The keys whose first parts are these. */
export function under(...parts: readonly string[]): { readonly from: string; readonly to: string } {
  const prefix = keyOf(...parts);
  return { from: `${prefix}\0`, to: `${prefix}\x01` };
}

export const partsOf = (key: string): string[] => key.split("\0");

/** The first key after this one. */
export const after = (key: string): string => `${key}\0`;
