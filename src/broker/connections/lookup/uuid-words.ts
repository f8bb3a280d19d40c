/** A UUID in its usual form, as four words of 32 bits; its text would take 60 bytes. */
export type UuidWords = readonly [number, number, number, number];

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns undefined unless the ID is a UUID in lowercase with hyphens, since other forms could not be restored. */
export function uuidWords(id: string): UuidWords | undefined {
  if (!form.test(id)) return undefined;
  const hex = id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24);
  const word = (at: number) => Number.parseInt(hex.slice(at, at + 8), 16);
  return [word(0), word(8), word(16), word(24)];
}

const digits = Buffer.from("0123456789abcdef");
/** A buffer with the hyphens of a UUID in place. */
const text = Buffer.from("00000000-0000-0000-0000-000000000000");
/** Positions of each word's digits in the text. */
const places = [
  [0, 1, 2, 3, 4, 5, 6, 7],
  [9, 10, 11, 12, 14, 15, 16, 17],
  [19, 20, 21, 22, 24, 25, 26, 27],
  [28, 29, 30, 31, 32, 33, 34, 35],
].map((of) => Uint8Array.from(of));

/** Writes digits into one buffer: joining slices of a hexadecimal string takes twice as long. */
export function uuidOf(...words: UuidWords): string {
  for (let word = 0; word < 4; word += 1) {
    const of = places[word];
    if (of === undefined) break;
    for (let digit = 0, left = words[word] ?? 0; digit < 8; digit += 1, left <<= 4) {
      text[of[digit] ?? 0] = digits[left >>> 28] ?? 0;
    }
  }
  return text.toString("latin1");
}
